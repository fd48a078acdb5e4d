// The report: one page, self-contained, well-formed, that says what the database holds.
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

}  // namespace
}  // namespace lw
