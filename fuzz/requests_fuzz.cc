// libFuzzer target for what the service is told (cmake/fuzz.cmake). The first byte says what the rest
// is: a SynchronizeRequest, which is checked and then carried out on a database, a StudySpec, a
// Record, a line of an import, or the parameters of a URL of the page. What is refused is the caller's fault
// by the error's code; what is taken leaves a sound database.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "google/rpc/error_details.pb.h"
#include "loopwright/v1/agent.pb.h"
#include "loopwright/v1/study.pb.h"
#include "src/base/check.h"
#include "src/serve/messages/errors.h"
#include "src/serve/page/views.h"
#include "src/serve/queue/synchronize.h"
#include "src/serve/studies/studies.h"
#include "tests/support/store_fixture.h"
#include "tuner_db/invariants.h"
#include "tuner_db/messages/messages.h"

namespace lw {
namespace {

namespace v1 = loopwright::v1;

bool is_callers(const absl::Status& status) {
  return status.code() == absl::StatusCode::kInvalidArgument ||
         status.code() == absl::StatusCode::kNotFound ||
         status.code() == absl::StatusCode::kPermissionDenied ||
         status.code() == absl::StatusCode::kFailedPrecondition;
}

// What the caller is told arrives as it was meant.
void expect_readable(const absl::Status& status) {
  const absl::Status arrived = from_grpc(to_grpc(status));
  CHECK(arrived.code() == status.code() && reason_of(arrived) == reason_of(status));
  google::rpc::BadRequest bad;
  const auto payload = arrived.GetPayload("type.googleapis.com/google.rpc.BadRequest");
  CHECK(!payload || bad.ParseFromString(std::string(*payload)));
}

Database& scratch_database() {
  static const std::shared_ptr<Database> database = [] {
    static const Scratch scratch;            // tests/support/store_fixture.h: gone at the end
    return *open_sqlite(scratch.file, {});
  }();
  return *database;
}

void synchronize_bytes(const std::string& bytes) {
  v1::SynchronizeRequest request;
  if (!request.ParseFromString(bytes)) return;
  const absl::Status checked = check_request(request);
  CHECK(checked.ok() || is_callers(checked));
  expect_readable(checked);
  if (!checked.ok()) return;
  static int64_t now_ms = 1'700'000'000'000;
  Shares shares;
  SyncCall call;
  call.request = &request;
  SyncAnswer answer;
  const absl::Status done = scratch_database().write(5, [&](WriteTransaction& tx) {
    return synchronize(tx, call, shares, LeaseRules(), ++now_ms, &answer);
  });
  CHECK(done.ok() || is_callers(done));
  if (done.ok()) CHECK(answer.response.receipts_size() == request.results_size());
}

void spec_bytes(const std::string& bytes) {
  v1::StudySpec spec;
  if (!spec.ParseFromString(bytes)) return;
  const absl::StatusOr<CheckedSpec> checked = check_spec(spec, Quotas());
  CHECK(checked.ok() || is_callers(checked.status()));
  expect_readable(checked.status());
  // What is stored must be readable again: protobuf refuses text that is not UTF-8 only then.
  if (checked.ok()) CHECK(v1::StudySpec().ParseFromString(checked->spec.SerializeAsString()));
}

void record_bytes(const std::string& bytes) {
  v1::Record record;
  if (!record.ParseFromString(bytes)) return;
  (void)from_proto(record.workload());
  (void)from_proto(record.target());
  const absl::StatusOr<Measurement> m = from_proto(record.measurement());
  if (m.ok() && defect(*m).empty()) {
    CHECK(from_proto(to_proto(*m)).ok());
  }
  (void)defect(from_proto(record.key()));
}

void parameters_bytes(const std::string& bytes) {
  Parameters parameters;
  for (absl::string_view part : absl::StrSplit(bytes, '&')) {
    const std::pair<std::string, std::string> pair = absl::StrSplit(part, absl::MaxSplits('=', 1));
    parameters[pair.first] = pair.second;
  }
  const ViewContext context{scratch_database(), 1'700'000'000'000};
  for (const absl::Status& status :
       {view_studies(context, parameters).status(), view_devices(context, parameters).status(),
        view_agents(context, parameters).status(), view_schedules(context, parameters).status(),
        view_study(context, parameters["id"]).status(),
        view_curve(context, parameters["id"], parameters).status()}) {
    CHECK(status.ok() || is_callers(status));
  }
}

}  // namespace
}  // namespace lw

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 5) {
    case 0: lw::synchronize_bytes(bytes); break;
    case 1: lw::spec_bytes(bytes); break;
    case 2: lw::record_bytes(bytes); break;
    case 3: {
      int64_t imported = 0;
      const std::unique_ptr<lw::Store> store = lw::make_memory_store();
      const absl::Status status = lw::import_records(*store, bytes, &imported);
      CHECK(status.ok() || lw::is_callers(status));
      break;
    }
    default: lw::parameters_bytes(bytes); break;
  }
  return 0;
}
