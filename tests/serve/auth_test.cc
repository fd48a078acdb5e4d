// Who may call what. The matrix below is written out by hand, apart from the table in auth.cc, and
// covers every method of every service: opening a method to a role takes a change in both.
#include "src/serve/access/auth.h"

#include <google/protobuf/descriptor.h>
#include <grpcpp/grpcpp.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "google/longrunning/operations.pb.h"
#include "google/rpc/error_details.pb.h"
#include "gtest/gtest.h"
#include "loopwright/v1/agent.pb.h"
#include "loopwright/v1/fleet.pb.h"
#include "loopwright/v1/schedule.pb.h"
#include "loopwright/v1/study.pb.h"
#include "src/base/message.h"
#include "src/serve/messages/errors.h"

namespace lw {
namespace {

namespace v1 = loopwright::v1;
using ::testing::HasSubstr;

const std::vector<CallerRole> kRoles = {CallerRole::kReader, CallerRole::kClient,
                                        CallerRole::kAgent, CallerRole::kAdmin,
                                        CallerRole::kImporter};

// r reader, c client, i importer, g agent, a admin.
const std::map<std::string, std::string> kMatrix = {
    {"/loopwright.v1.TuningService/GetCapabilities", "rciga"},
    {"/loopwright.v1.TuningService/CreateStudy", "ca"},
    {"/loopwright.v1.TuningService/GetStudy", "rcia"},
    {"/loopwright.v1.TuningService/ListStudies", "rcia"},
    {"/loopwright.v1.TuningService/CancelStudy", "ca"},
    {"/loopwright.v1.TuningService/WatchStudy", "rcia"},
    {"/loopwright.v1.AgentService/Synchronize", "g"},
    {"/loopwright.v1.ScheduleService/BatchLookup", "rcia"},
    {"/loopwright.v1.ScheduleService/PutRecords", "cia"},
    {"/loopwright.v1.ScheduleService/ListHistory", "rcia"},
    {"/loopwright.v1.ScheduleService/ListSchedules", "rcia"},
    {"/loopwright.v1.ScheduleService/ExportRecords", "rcia"},
    {"/loopwright.v1.ScheduleService/ImportRecords", "cia"},
    {"/loopwright.v1.ScheduleService/WithdrawRecord", "a"},
    {"/loopwright.v1.ScheduleService/RestoreRecord", "a"},
    {"/loopwright.v1.ScheduleService/AnnulMeasurements", "a"},
    {"/loopwright.v1.ScheduleService/ReinstateMeasurements", "a"},
    {"/loopwright.v1.ScheduleService/ListWithdrawn", "rcia"},
    {"/loopwright.v1.ScheduleService/PollWithdrawn", "rcia"},
    {"/loopwright.v1.FleetService/ListDevices", "rcia"},
    {"/loopwright.v1.FleetService/ListAgents", "rcia"},
    {"/loopwright.v1.FleetService/DrainDevices", "a"},
    {"/loopwright.v1.FleetService/ResumeDevices", "a"},
    {"/loopwright.v1.FleetService/QuarantineDevice", "a"},
    {"/loopwright.v1.FleetService/ListJobs", "rcia"},
    {"/loopwright.v1.FleetService/RequeueJob", "a"},
    {"/loopwright.v1.FleetService/GetFleet", "rcia"},
    {"/loopwright.v1.FleetService/ListAudit", "a"},
    {"/loopwright.v1.FleetService/BackupDatabase", "a"},
    {"/google.longrunning.Operations/ListOperations", "rcia"},
    {"/google.longrunning.Operations/GetOperation", "rcia"},
    {"/google.longrunning.Operations/DeleteOperation", "ca"},
    {"/google.longrunning.Operations/CancelOperation", "ca"},
    {"/google.longrunning.Operations/WaitOperation", "rcia"},
    {"/grpc.health.v1.Health/Check", "rciga"},
    {"/grpc.health.v1.Health/Watch", "rciga"},
    {"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", "a"},
};

char letter(CallerRole role) { return role == CallerRole::kAgent ? 'g' : role_name(role)[0]; }

google::rpc::ErrorInfo info_of(const absl::Status& status) {
  google::rpc::ErrorInfo info;
  const auto payload = status.GetPayload("type.googleapis.com/google.rpc.ErrorInfo");
  if (payload.has_value()) info.ParseFromString(std::string(*payload));
  return info;
}

TEST(Permissions, EveryMethodOfEveryServiceIsDecidedAndNothingElse) {
  std::set<std::string> methods = {
      "/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch",
      "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"};
  for (const google::protobuf::FileDescriptor* file :
       {v1::Study::descriptor()->file(), v1::Device::descriptor()->file(),
        v1::Fleet::descriptor()->file(), v1::Schedule::descriptor()->file(),
        google::longrunning::Operation::descriptor()->file()}) {
    EXPECT_EQ(file->service_count(), 1) << file->name();
    for (int s = 0; s < file->service_count(); ++s) {
      for (int m = 0; m < file->service(s)->method_count(); ++m) {
        const google::protobuf::MethodDescriptor* method = file->service(s)->method(m);
        methods.insert(concat("/", method->service()->full_name(), "/", method->name()));
      }
    }
  }
  std::set<std::string> listed;
  for (const Permission& permission : permissions()) {
    EXPECT_TRUE(listed.emplace(permission.method).second)
        << permission.method << " is listed twice";
  }
  EXPECT_EQ(listed, methods);
}

TEST(Permissions, EachRoleMayWhatTheMatrixSays) {
  EXPECT_EQ(kMatrix.size(), permissions().size());
  for (const Permission& permission : permissions()) {
    const auto row = kMatrix.find(std::string(permission.method));
    ASSERT_NE(row, kMatrix.end()) << permission.method;
    for (const CallerRole role : kRoles) {
      const bool may = row->second.find(letter(role)) != std::string::npos;
      EXPECT_EQ(authorize({role, "x", true}, permission.method).ok(), may)
          << role_name(role) << " " << permission.method;
    }
    EXPECT_TRUE(authorize(local_identity(), permission.method).ok());
  }
}

TEST(Permissions, WhatIsNotListedIsDeniedToEverybody) {
  for (const std::string& method :
       {std::string(), std::string("/"), std::string("/loopwright.v1.TuningService/DropAll"),
        std::string("/loopwright.v1.TuningService/GetStudy/"),
        std::string("loopwright.v1.TuningService/GetStudy"),
        std::string("/loopwright.v1.TuningService/getstudy"),
        std::string("/grpc.channelz.v1.Channelz/GetServers")}) {
    for (const CallerRole role : kRoles) {
      EXPECT_EQ(authorize({role, "x", true}, method).code(), absl::StatusCode::kPermissionDenied)
          << method;
    }
    EXPECT_EQ(authorize(local_identity(), method).code(), absl::StatusCode::kPermissionDenied)
        << method;
  }
}

TEST(Permissions, ADenialNamesRoleNameAndMethod) {
  const absl::Status status = authorize({CallerRole::kReader, "dashboard", true},
                                        "/loopwright.v1.TuningService/CreateStudy");
  EXPECT_EQ(reason_of(status), v1::ERROR_REASON_ROLE_DENIED);
  EXPECT_THAT(std::string(status.message()), HasSubstr("role reader (dashboard) may not call"));
  const google::rpc::ErrorInfo info = info_of(status);
  EXPECT_EQ(info.domain(), "loopwright");
  EXPECT_EQ(info.metadata().at("role"), "reader");
  EXPECT_EQ(info.metadata().at("name"), "dashboard");
  EXPECT_EQ(info.metadata().at("method"), "/loopwright.v1.TuningService/CreateStudy");
}

TEST(Permissions, WhatChangesSomethingIsAudited) {
  for (const Permission& permission : permissions()) {
    const std::string verb(permission.method.substr(permission.method.rfind('/') + 1));
    bool reads = verb == "Synchronize";      // thousands a second, each result with its own receipt
    for (const char* prefix :
         {"Get", "List", "Poll", "Watch", "Wait", "Check", "Batch", "Export", "Server"}) {
      reads |= verb.rfind(prefix, 0) == 0;
    }
    EXPECT_EQ(permission.audited, !reads) << permission.method;
  }
}

TEST(Rules, AnAgentSpeaksForItself) {
  const Identity board{CallerRole::kAgent, "board-7", true};
  EXPECT_TRUE(may_synchronize(board, "agents/board-7").ok());
  for (const char* other :
       {"agents/board-70", "agents/board-", "board-7", "agents/", "", "agents/board-7/x"}) {
    EXPECT_EQ(reason_of(may_synchronize(board, other)), v1::ERROR_REASON_ROLE_DENIED) << other;
  }
  EXPECT_TRUE(may_synchronize(local_identity(), "agents/anything").ok());
}

TEST(Rules, AClientEndsOnlyItsOwn) {
  const Identity ci{CallerRole::kClient, "ci", true};
  const Identity admin{CallerRole::kAdmin, "root", true};
  EXPECT_TRUE(may_change_study(ci, "", "client/ci", "ci").ok());
  EXPECT_EQ(reason_of(may_change_study(ci, "", "client/nightly", "nightly")),
            v1::ERROR_REASON_ROLE_DENIED);
  EXPECT_EQ(reason_of(may_change_study(ci, "", "admin/ci", "ci")), v1::ERROR_REASON_ROLE_DENIED);
  EXPECT_EQ(reason_of(may_change_study(ci, "", "", "")), v1::ERROR_REASON_ROLE_DENIED);
  EXPECT_TRUE(may_change_study(admin, "", "client/ci", "ci").ok());
  EXPECT_TRUE(may_change_study(local_identity(), "", "client/ci", "ci").ok());
  // Older studies have no role: the same name in another one is somebody else all the same.
  EXPECT_TRUE(may_change_study(ci, "", "", "ci").ok());
  EXPECT_FALSE(may_change_study({CallerRole::kReader, "ci", true}, "", "", "ci").ok());
  EXPECT_FALSE(may_change_study({CallerRole::kAgent, "ci", true}, "", "client/ci", "ci").ok());
}

TEST(Identities, AreReadFromExactlyOneUri) {
  const auto of = [](std::vector<std::string> uris) {
    return identity_of(std::span<const std::string>(uris));
  };
  EXPECT_EQ(*of({"spiffe://loopwright/agent/board-7"}),
            (Identity{CallerRole::kAgent, "board-7", true}));
  EXPECT_EQ(*of({"https://example.org/x", "spiffe://loopwright/admin/a.b_c"}),
            (Identity{CallerRole::kAdmin, "a.b_c", true}));
  for (const std::vector<std::string>& uris : std::vector<std::vector<std::string>>{
           {},
           {"spiffe://other/agent/x"},
           {"spiffe://loopwright.evil/admin/x"},
           {"spiffe://loopwright/agent/x", "spiffe://loopwright/admin/x"},
           {"spiffe://loopwright/server/main"},
           {"spiffe://loopwright/root/x"},
           {"spiffe://loopwright/Admin/x"},
           {"spiffe://loopwright/admin"},
           {"spiffe://loopwright/admin/"},
           {"spiffe://loopwright//x"},
           {"spiffe://loopwright/admin/x/y"},
           {"spiffe://loopwright/admin/-x"},
           {"spiffe://loopwright/admin/x y"},
           {std::string("spiffe://loopwright/admin/x\0y", 29)},
           {"spiffe://loopwright/admin/" + std::string(64, 'x')},
           {"SPIFFE://loopwright/admin/x"}}) {
    const absl::Status status = of(uris).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnauthenticated) << ::testing::PrintToString(uris);
    EXPECT_EQ(reason_of(status), v1::ERROR_REASON_NO_CERTIFICATE) << ::testing::PrintToString(uris);
  }
}

}  // namespace
}  // namespace lw
