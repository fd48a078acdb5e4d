// The report: one page, self-contained, well-formed, that says what the database holds.
#include <set>

#include "schedules/targets/target.h"
#include "src/api/task.h"
#include "src/base/message.h"
#include "src/base/rng.h"
#include "src/expr/expr.h"
#include "src/expr/language/text.h"
#include "src/search/search.h"
#include "tests/support/cli_fixture.h"

namespace lw {
namespace {

size_t count_of(const std::string& text, const std::string& part) {
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
    EXPECT_EQ(count_of(page, resource), 0u) << resource;
  }
  for (const char* tag : {"div", "svg", "table", "tbody", "tr", "td", "th", "details", "script",
                          "style", "body", "html", "main"}) {
    EXPECT_EQ(count_of(page, std::string("<") + tag + ">") + count_of(page, std::string("<") + tag + " "),
              count_of(page, std::string("</") + tag + ">")) << tag;
  }
  EXPECT_EQ(count_of(page, "<svg"), 3u);      // two curves, the roofline
  EXPECT_GE(count_of(page, "matmul M=48 N=48 K=48"), 2u);
  EXPECT_GE(count_of(page, "odd.te:odd_add"), 1u);
  EXPECT_EQ(count_of(page, "nan"), 0u);
  EXPECT_EQ(count_of(page, "<tr data-task="), 2u);
}

// As a notebook shows them, beside whatever else has charts.
TEST_F(CliTest, ASearchGivesItsChartsIfAsked) {
  const std::string tune = "tune --json --trials 4 --seconds 20 --threads 1 matmul M=48 N=48 K=48";
  const CliRun plain = cli(tune);
  ASSERT_EQ(plain.code, 0) << plain.err;
  EXPECT_FALSE(plain.json().contains("svg"));
  const nlohmann::json charts = cli(tune + " --svg").json()["svg"];
  ASSERT_EQ(charts.size(), 2u);
  for (const auto& [name, chart] : charts.items()) {
    const std::string svg = chart;
    EXPECT_TRUE(svg.starts_with("<svg xmlns='http://www.w3.org/2000/svg' ")) << name;
    EXPECT_EQ(count_of(svg, "<style>") + count_of(svg, "</svg>"), 2u) << name;
    EXPECT_EQ(count_of(svg, name == "curve" ? "class='curve'" : "class='point'"), 1u) << svg;
  }
  // What computes nothing has no place below a roof.
  const nlohmann::json copied = cli("tune --json --svg --trials 2 --seconds 20 --threads 1 "
                                    "transpose M=16 N=16").json()["svg"];
  EXPECT_EQ(copied["roofline"], "");
  EXPECT_NE(copied["curve"], "");
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
    EXPECT_GE(count_of(page, task["roof"].get<std::string>() + ": "), 1u);
  }
  EXPECT_EQ(names.size(), 3u);
}

constexpr char kCentred[] =
    "op centred() {\n  in A: f32[40, 30]\n  T[i: 40] = sum[j: 30](A[i, j])\n"
    "  out Y[i: 40, j: 30] = A[i, j] - T[i]\n}\n";

Measurement stored(const Trace& trace, Verdict verdict, const std::string& detail) {
  Measurement m;
  m.trace = to_text(trace);
  m.kernel_hash = trace.size();
  m.verdict = verdict;
  m.detail = detail;
  m.source = "random";
  m.environment = "{}";
  if (verdict != Verdict::kOk) return m;
  m.samples_us = std::vector<double>(20, 2);
  m.time_us = m.ci_low_us = m.ci_high_us = 2;
  m.verified = true;
  return m;
}

TEST_F(CliTest, ReportExplainsFailuresAndTheLastResort) {
  write("centred.te", kCentred);
  TaskOptions options;
  options.threads = 1;
  const absl::StatusOr<Task> task = make_task({path("centred.te")}, options);
  ASSERT_TRUE(task.ok()) << task.status();
  const Sketch plain = last_resort(task->start());
  {
    const absl::StatusOr<std::unique_ptr<Store>> store = open_sqlite_store(path("loopwright.db"));
    ASSERT_TRUE(store.ok() && put_task(**store, *task).ok());
    Rng rng(1);
    std::vector<Measurement> rows = {
        stored(sample(task->start(), plain, rng)->trace, Verdict::kOk, ""),
        stored({}, Verdict::kWrongResult, "Y[7] is <2>, should be 1 (admissible error 1e-07)"),
        stored({}, Verdict::kWrongResult, "Y[8] is 3, should be 1 (admissible error 1e-07)"),
        stored({}, Verdict::kCrash, "SIGSEGV")};
    ASSERT_TRUE((*store)->append(task->key(), rows).ok());
  }
  const CliRun run = cli("report --json --no-machine -o page.html");
  ASSERT_EQ(run.code, 0) << run.err;
  const auto report = run.json()["tasks"][0];
  ASSERT_EQ(report["failures"].size(), 2u) << report;
  EXPECT_EQ(report["failures"][0]["class"], "wrong_result");
  EXPECT_EQ(report["failures"][0]["count"], 2);
  const std::string page = slurp(path("page.html"));
  EXPECT_EQ(count_of(page, "<h3>wrong result: 2, of 1 workload</h3>"), 1u);
  EXPECT_EQ(count_of(page, "<h3>crash: 1, of 1 workload</h3>"), 1u);
  EXPECT_EQ(count_of(page, "Y[7] is &lt;2&gt;, should be 1 (admissible error 1e-07)"), 1u);
  EXPECT_EQ(count_of(page, "Y[8] is 3"), 0u);
  EXPECT_EQ(count_of(page, "centred.te</b> <small>"), 2u) << "of each class";
  EXPECT_EQ(count_of(page, "run --case"), 2u) << "what to do, of each class";
  const std::string why = report["last_resort"];
  EXPECT_EQ(count(why, "only the last resort was searched"), 1u) << why;
  EXPECT_EQ(count_of(page, "only the last resort was searched"), 1u);
}

// Where a rule's sketch has the same steps as the last resort, its best is a rule's.
TEST(LastResort, IsNoneOfTheRulesSketches) {
  const absl::StatusOr<Program> program = parse_program(kCentred, "centred.te");
  ASSERT_TRUE(program.ok()) << program.status();
  const Nest start = make_nest(std::make_shared<const Program>(*program),
                               std::make_shared<const Target>(*find_target("x86_avx512")), 1);
  Rng rng(1);
  EXPECT_NE(only_last_resort(start, sample(start, last_resort(start), rng)->trace), "");
  for (const Sketch& sketch : make_space(start)) {
    const absl::StatusOr<Sample> drawn = sample(start, sketch, rng);
    if (drawn.ok()) EXPECT_EQ(only_last_resort(start, drawn->trace), "") << sketch.name;
  }
}

}  // namespace
}  // namespace lw
