// The report: one page, self-contained, well-formed, that says what the database holds.
#include <set>

#include "src/expr/message.h"
#include "tests/cli_fixture.h"

namespace lw {
namespace {

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST_F(CliTest, ReportIsOneSelfContainedPage) {
  EXPECT_EQ(cli("report").code, 2);
  write("odd.te", "op odd_add(N = 300) {\n  in X: f32[N]\n  out Y[i: N] = X[i] + 1\n}\n");
  ASSERT_EQ(cli("tune -q --trials 8 --seconds 20 --threads 1 matmul M=48 N=48 K=48").code, 0);
  ASSERT_EQ(cli("tune -q --trials 8 --seconds 20 --threads 1 odd.te:odd_add").code, 0);
  const CliRun run = cli("report --json -o page.html");
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(run.json()["file"], "page.html");
  ASSERT_EQ(run.json()["tasks"].size(), 2u);
  const std::string page = slurp(path("page.html"));
  for (const char* resource : {"http://", "https://", "src=", "@import", "url("}) {
    EXPECT_EQ(count(page, resource), 0u) << resource;
  }
  for (const char* tag : {"div", "svg", "table", "tbody", "tr", "td", "th", "details", "script",
                          "style", "body", "html", "main"}) {
    EXPECT_EQ(count(page, std::string("<") + tag + ">") + count(page, std::string("<") + tag + " "),
              count(page, std::string("</") + tag + ">")) << tag;
  }
  EXPECT_EQ(count(page, "<svg"), 3u);      // two curves, the roofline
  EXPECT_GE(count(page, "matmul M=48 N=48 K=48"), 2u);
  EXPECT_GE(count(page, "odd.te:odd_add"), 1u);
  EXPECT_EQ(count(page, "nan"), 0u);
  EXPECT_EQ(count(page, "<tr data-task="), 2u);
}

TEST_F(CliTest, EveryPointOfTheRooflineHasARoofOfItsType) {
  const char* products[] = {"dense_u8i8 M=64 N=64 K=256", "dense M=64 N=64 K=256 T=f64",
                            "dense M=64 N=64 K=256"};
  for (const char* words : products)
    ASSERT_EQ(cli(concat("tune -q --trials 4 --seconds 20 --threads 1 ", words)).code, 0) << words;
  const CliRun run = cli("report --json -o page.html");
  ASSERT_EQ(run.code, 0) << run.err;
  const std::string page = slurp(path("page.html"));
  const auto report = run.json();
  std::set<std::string> names;
  for (const auto& task : report["tasks"]) {
    double roof = 0;
    for (const auto& peak : report["peaks"]) {
      if (peak["name"] == task["roof"] && peak["threads"] == task["threads"]) roof = peak["gflops"];
    }
    ASSERT_GT(roof, 0) << task;
    EXPECT_LE(task["flops"].get<double>() / task["best_us"].get<double>() / 1e3, 1.05 * roof);
    names.insert(task["roof"]);
    EXPECT_GE(count(page, task["roof"].get<std::string>() + ": "), 1u);
  }
  EXPECT_EQ(names.size(), 3u);
}

}  // namespace
}  // namespace lw
