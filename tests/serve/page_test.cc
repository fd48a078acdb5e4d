// The page in a real browser: what headless Chromium makes of it holds the studies, the curves and
// the devices; a name is text, whatever it looks like. LOOPWRIGHT_SCREENSHOTS=FOLDER also writes
// pictures of it there: wide, dark, and as narrow as a phone.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "src/base/message.h"
#include "src/serve/wire/http.h"
#include "tests/serve/service_fixture.h"

namespace lw {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr char kBrowser[] = "/usr/bin/chromium";
constexpr int kLimit_s = 60;

// Runs the browser on `url` with its files in `folder`; what it wrote to stdout, "" when it failed.
std::string browse(const std::string& folder, const std::string& url,
                   const std::vector<std::string>& more) {
  std::vector<std::string> words = {
      kBrowser, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
      "--no-first-run", "--disable-extensions", "--disable-background-networking",
      "--disable-component-update", "--user-data-dir=" + folder + "/profile",
      "--virtual-time-budget=5000"};
  words.insert(words.end(), more.begin(), more.end());
  words.push_back(url);
  const std::string out = folder + "/out";
  const pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) {
    setpgid(0, 0);
    setenv("HOME", folder.c_str(), 1);
    if (freopen(out.c_str(), "w", stdout) == nullptr) _exit(126);
    if (freopen((folder + "/err").c_str(), "w", stderr) == nullptr) _exit(126);
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    execv(kBrowser, argv.data());
    _exit(127);
  }
  int status = -1;
  pid_t ended = 0;
  for (int tenth = 0; tenth < 10 * kLimit_s && ended == 0; ++tenth) {
    ended = waitpid(pid, &status, WNOHANG);
    if (ended == 0) usleep(100'000);
  }
  kill(-pid, SIGKILL);                     // helpers that it left, or all of it
  if (ended == 0) waitpid(pid, &status, 0);
  return ended == pid && status == 0 ? slurp(out) : "";
}

class PageTest : public testing::Test {
 protected:
  void SetUp() override {
    if (access(kBrowser, X_OK) != 0) GTEST_SKIP() << "[SKIP] no " << kBrowser;
  }
  void serve(bool hostile, bool empty = false) {
    data_ = std::make_unique<ServiceData>(scratch_.file);
    if (!empty) data_->fill(hostile);
    HttpHooks hooks;
    hooks.now_ms = [] { return kNow_ms; };
    hooks.health = [] { return Health(); };
    HttpOptions options;
    options.address = *parse_bind_address("127.0.0.1:0");
    options.version = "9.9";
    server_ = *HttpServer::start(options, data_->database(), metrics_, hooks);
  }
  std::string dom(const std::string& fragment = "") {
    return browse(scratch_.directory, server_->url() + fragment, {"--dump-dom"});
  }

  Scratch scratch_;
  Metrics metrics_{"9.9"};
  std::unique_ptr<ServiceData> data_;
  std::unique_ptr<HttpServer> server_;
};

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST_F(PageTest, ShowsStudiesCurvesDevicesAndSchedules) {
  serve(/*hostile=*/false);
  const std::string page = dom("#study=STUDY7");
  ASSERT_FALSE(page.empty()) << slurp(scratch_.directory + "/err");
  EXPECT_THAT(page, HasSubstr("conv2d 56x56x64 3x3 and 5 more"));
  EXPECT_THAT(page, HasSubstr("734 / 1,200"));
  EXPECT_EQ(count(page, "data-key=\"STUDY"), 7u);
  EXPECT_EQ(count(page, "<path class=\"curve c"), 6u);
  EXPECT_EQ(count(page, "<path class=\"mean\""), 1u);
  EXPECT_THAT(page, HasSubstr("data-key=\"board-3\""));
  EXPECT_THAT(page, HasSubstr("<span class=\"pill bad\">quarantined</span>"));
  EXPECT_THAT(page, HasSubstr("Device board-3 is quarantined: the reference kernel drifted"));
  EXPECT_GT(count(page, "<rect class=\"done\""), 50u);
  EXPECT_EQ(count(page, "<rect class=\"leased\""), 3u);
  EXPECT_THAT(page, HasSubstr("wrong result"));
  EXPECT_EQ(count(page, "<summary>schedule</summary>"), 15u);
  EXPECT_THAT(page, Not(HasSubstr("NaN")));
  EXPECT_THAT(page, Not(HasSubstr("undefined")));
}

TEST_F(PageTest, ASimulatedBestSaysWhatItsEnginesDo) {
  serve(/*hostile=*/false);
  data_->simulated("STUDY9");
  data_->run("UPDATE candidates SET time_kind = 20 WHERE key = 1");
  data_->run("UPDATE measurements SET environment = ? WHERE candidate <= 3",
             std::string(R"({"counters":{"cycles":2000,"busy.MX":1500,"stall.MX.token":500,)"
                         R"("bound.array":1400,"busy.<b>":"<b>"}})"));
  const std::string page = dom("#study=STUDY9");
  ASSERT_FALSE(page.empty()) << slurp(scratch_.directory + "/err");
  EXPECT_EQ(count(page, "<summary>engines, of 2,000 cycles</summary>"), 1u);
  EXPECT_THAT(page, HasSubstr("<span>MX</span><div class=\"meter \"><i style=\"width: 75%;\">"));
  EXPECT_THAT(page, HasSubstr("<small>its next waits: token 25.0 %</small>"));
  EXPECT_THAT(page, HasSubstr("<span>70.0 %</span></div><small>at least</small>"));
  EXPECT_EQ(count(page, "&lt;b&gt;"), 0u) << "what is no figure";
  // And when, of the study's best.
  EXPECT_EQ(count(page, "<summary>timeline of matmul T=i8</summary>"), 1u);
  EXPECT_EQ(count(page, "aria-label=\"Timeline\""), 1u);
  EXPECT_EQ(count(page, "<rect class=\"idle\""), 5u);
  EXPECT_THAT(page, HasSubstr("<title>MX: busy "));
  EXPECT_THAT(page, HasSubstr("<span class=\"swatch state0\"></span>busy</span>"));
  EXPECT_THAT(page, HasSubstr("its instructions need at least "));
}

TEST_F(PageTest, AStudySaysWhatFailedOfIt) {
  serve(/*hostile=*/false);
  const std::string name = "conv3d_bad", target = data_->target("x86_avx512");
  data_->failed("STUDY3", name, target, "wrong_result", "Y[7] is <2>, should be 1");
  data_->failed("STUDY3", name, target, "wrong_result", "Y[8] is 3, should be 1");
  const std::string page = dom("#study=STUDY3");
  ASSERT_FALSE(page.empty()) << slurp(scratch_.directory + "/err");
  EXPECT_THAT(page, HasSubstr("Failed of conv3d_bad"));
  EXPECT_THAT(page, HasSubstr("<b>2 wrong result</b>, e.g. Y[7] is &lt;2&gt;, should be 1"));
  EXPECT_THAT(page, HasSubstr("--keep-failing"));
}

TEST_F(PageTest, NamesStayText) {
  serve(/*hostile=*/true);
  const std::string page = dom("#study=STUDY9");
  ASSERT_FALSE(page.empty()) << slurp(scratch_.directory + "/err");
  EXPECT_THAT(page, HasSubstr("&lt;img src=x onerror="));
  EXPECT_THAT(page, Not(HasSubstr("<img")));
  EXPECT_THAT(page, HasSubstr("<title>Loopwright service</title>"));
}

TEST_F(PageTest, AnEmptyServiceSaysHowToBegin) {
  serve(false, /*empty=*/true);
  const std::string page = dom();
  ASSERT_FALSE(page.empty()) << slurp(scratch_.directory + "/err");
  EXPECT_THAT(page, HasSubstr("No study yet"));
  EXPECT_THAT(page, HasSubstr("No device yet"));
  EXPECT_THAT(page, HasSubstr("No schedule yet"));
  EXPECT_THAT(page, Not(HasSubstr("NaN")));
}

TEST_F(PageTest, Screenshots) {
  const char* folder = std::getenv("LOOPWRIGHT_SCREENSHOTS");
  if (folder == nullptr) GTEST_SKIP() << "[SKIP] LOOPWRIGHT_SCREENSHOTS names no folder";
  serve(/*hostile=*/false);
  const std::string url = server_->url() + "#study=STUDY7";
  for (const auto& [name, more] :
       {std::pair<std::string, std::vector<std::string>>{"wide.png", {"--window-size=1280,2300"}},
        {"dark.png", {"--window-size=1280,2300", "--blink-settings=preferredColorScheme=0"}},
        {"narrow.png", {"--window-size=500,3200"}}}) {
    std::vector<std::string> words = more;
    words.push_back(concat("--screenshot=", folder, "/", name));
    browse(scratch_.directory, url, words);
    EXPECT_TRUE(std::filesystem::exists(concat(folder, "/", name)));
  }
}

}  // namespace
}  // namespace lw
