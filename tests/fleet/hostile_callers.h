// Sends hostile calls (hostile_calls.h) over certificates, on threads of a process of their own.
#pragma once

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "schedules/targets/target.h"
#include "src/base/hash.h"
#include "src/build/build.h"
#include "src/net/channel.h"
#include "src/net/words.h"
#include "tests/fleet/hostile_calls.h"
#include "tuner_db/messages/messages.h"

namespace lw {

inline grpc::Status send(const std::shared_ptr<grpc::Channel>& channel, const HostileCall& call,
                         Loot& loot) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::milliseconds(call.deadline_ms));
  grpc::CompletionQueue queue;
  const auto done = [&queue] {
    void* tag = nullptr;
    bool ok = false;
    return queue.Next(&tag, &ok) && ok;
  };
  const auto stream = stub.PrepareCall(
      &context, absl::StrCat("/", call.method->service()->full_name(), "/", call.method->name()),
      &queue);
  stream->StartCall(nullptr);
  bool open = done();
  for (const std::string& message : call.messages) {
    if (!open) break;
    const grpc::Slice slice(message);
    stream->Write(grpc::ByteBuffer(&slice, 1), nullptr);
    open = done();
  }
  if (open) {
    stream->WritesDone(nullptr);
    done();
  }
  if (call.cancels) context.TryCancel();
  const std::unique_ptr<Message> answer = new_message(call.method->output_type());
  for (int i = 0; open && i < call.most_answers; ++i) {
    grpc::ByteBuffer bytes;
    stream->Read(&bytes, nullptr);
    if (!done()) break;
    std::vector<grpc::Slice> slices;
    if (!bytes.Dump(&slices).ok()) continue;
    std::string text;
    for (const grpc::Slice& slice : slices) {
      text.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
    }
    if (answer->ParseFromString(text)) loot.keep(*answer);
  }
  if (call.method->server_streaming()) context.TryCancel();
  grpc::Status status;
  stream->Finish(&status, nullptr);
  done();
  return status;
}

// What honest callers send is no secret: where the attack begins. `name`: whose certificate it is.
inline void keep_examples(const std::string& name, Loot& loot) {
  loot.keep_text("agent", "agents/" + name);
  loot.keep_text("name", "devices/" + name);
  loopwright::v1::CreateStudyRequest study;
  study.set_request_id("00000000-0000-4000-8000-000000000001");
  study.mutable_spec()->add_workloads()->set_program(hostile_programs()[0]);
  study.mutable_spec()->set_trials(50);
  study.mutable_spec()->set_target("any");
  loot.keep(study);
  loopwright::v1::SynchronizeRequest call;
  call.set_agent("agents/" + name);
  call.set_session("00000000-0000-4000-8000-000000000002");
  call.set_sequence(1);
  loopwright::v1::DeviceState& device = *call.add_devices();
  device.set_name("devices/" + name);
  device.set_wanted(2);
  device.set_health(loopwright::v1::DEVICE_HEALTH_OK);
  const Target target = *find_target("x86_avx2");
  *device.mutable_description()->mutable_target() = to_proto(target);
  device.mutable_description()->set_target_id(sha256(to_text(target)));
  device.mutable_description()->set_backend((*find_backend(target.architecture))->version());
  device.mutable_description()->set_slots(2);
  device.mutable_description()->mutable_words()->Assign(known_words().begin(), known_words().end());
  loot.keep(call);
}

// Until it is `over`, on two threads for each of the certificates' folders in `pki`; then ends the
// process and prints what was answered, by certificate and code. Gives way to everybody else on
// this machine at any moment, as other machines would.
[[noreturn]] inline void attack(const std::string& address, const std::string& pki,
                                const std::vector<std::string>& certificates, uint64_t seed,
                                const std::function<bool()>& over) {
  const sched_param none = {};
  sched_setscheduler(0, SCHED_IDLE, &none);
  google::protobuf::LogSilencer silent;    // protobuf's complaints about our bytes
  Loot loot;
  std::mutex mutex;
  std::map<std::string, std::map<std::string, int64_t>> answered;
  std::vector<std::thread> callers;
  for (const std::string& who : certificates) {  // who they are is no secret to them
    keep_examples(who.substr(who.find('-') + 1), loot);
  }
  for (const std::string& who : certificates) {
    for (int thread = 0; thread < 2; ++thread) {
      callers.emplace_back([&, who, thread] {
        const std::string folder = absl::StrCat(pki, "/", who, "/");
        const ServerAddress server{
            .address = address,
            .tls = {folder + "ca.pem", folder + "cert.pem", folder + "key.pem"},
            .keepalive = {}};
        const auto channel = *open_channel(server);
        HostileCalls calls(hash_combine(seed, hash64(absl::StrCat(who, thread))), loot);
        while (true) {
          const HostileCall call = calls.next();
          const grpc::Status status = send(channel, call, loot);
          calls.answered(call, status.ok() || status.error_code() == grpc::CANCELLED,
                         status.error_code() == grpc::PERMISSION_DENIED ||
                             status.error_code() == grpc::UNIMPLEMENTED);
          const std::lock_guard guard(mutex);
          ++answered[who][std::string(absl::StatusCodeToString(
              static_cast<absl::StatusCode>(status.error_code())))];
        }
      });
    }
  }
  while (!over()) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const std::lock_guard guard(mutex);      // nobody counts any more
  for (const auto& [who, codes] : answered) {
    std::printf("%-14s", who.c_str());
    for (const auto& [code, count] : codes) std::printf(" %s %lld", code.c_str(), (long long)count);
    std::printf("\n");
  }
  std::fflush(stdout);
  _exit(0);                                // calls that wait for their answers go on until then
}

}  // namespace lw
