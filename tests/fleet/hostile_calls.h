// Calls that nobody should make, to every method that the service has: requests are generated from
// the descriptors, so that a new method or field is attacked without a word here. A request is
// drawn field by field: oversized, deep, negative, endless; or plundered, as a whole or in parts,
// from what answers told before and from earlier requests, so that names exist, keys are those of
// others and measurements are nearly right. Whatever holds the credentials sends it: who may call what is the
// server's affair.
//
// What is left out: agents that answer the jobs they are given, with words of their own making
// (scripted_agent.h).
//
// The same seed and the same answers give the same calls. Callers may share their loot: attackers
// collude.
#pragma once

#include <cfloat>
#include <climits>
#include <cmath>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "google/longrunning/operations.pb.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/dynamic_message.h"
#include "loopwright/v1/agent.pb.h"
#include "loopwright/v1/fleet.pb.h"
#include "loopwright/v1/schedule.pb.h"
#include "loopwright/v1/study.pb.h"
#include "src/base/check.h"
#include "src/base/rng.h"

namespace lw {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::MethodDescriptor;
using google::protobuf::Reflection;

inline std::unique_ptr<Message> new_message(const Descriptor* type) {
  return std::unique_ptr<Message>(
      google::protobuf::MessageFactory::generated_factory()->GetPrototype(type)->New());
}

// Every method of the services. Naming a file's message here links its descriptors in.
inline std::vector<const MethodDescriptor*> all_methods() {
  std::vector<const MethodDescriptor*> methods;
  for (const auto* file :
       {loopwright::v1::Study::descriptor()->file(), loopwright::v1::Job::descriptor()->file(),
        loopwright::v1::LookupQuery::descriptor()->file(),
        loopwright::v1::DeviceStatus::descriptor()->file(),
        google::longrunning::Operation::descriptor()->file()}) {
    for (int s = 0; s < file->service_count(); ++s) {
      for (int m = 0; m < file->service(s)->method_count(); ++m) {
        methods.push_back(file->service(s)->method(m));
      }
    }
  }
  return methods;
}

// What was learned from answers. Thread-safe.
class Loot {
 public:
  void keep(const Message& message, int depth = 0) {
    if (message.ByteSizeLong() > (256 << 10)) return;
    const Descriptor* type = message.GetDescriptor();
    put(&messages_[type->full_name()], message.SerializeAsString());
    std::vector<const FieldDescriptor*> fields;
    message.GetReflection()->ListFields(message, &fields);
    const Reflection* reflection = message.GetReflection();
    for (const FieldDescriptor* field : fields) {
      const int size = field->is_repeated() ? reflection->FieldSize(message, field) : 1;
      for (int i = 0; i < std::min(size, 20); ++i) {
        if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
          std::string scratch;
          put(&texts_[field->name()],
              field->is_repeated()
                  ? reflection->GetRepeatedStringReference(message, field, i, &scratch)
                  : reflection->GetStringReference(message, field, &scratch));
        } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE && depth < 6) {
          keep(field->is_repeated() ? reflection->GetRepeatedMessage(message, field, i)
                                    : reflection->GetMessage(message, field),
               depth + 1);
        }
      }
    }
  }

  void keep_text(const std::string& field, const std::string& value) { put(&texts_[field], value); }

  // "" where nothing is known.
  std::string text(const std::string& field, Rng& rng) const { return get(texts_, field, rng); }
  bool message(Rng& rng, Message* out) const {
    const std::string bytes = get(messages_, out->GetDescriptor()->full_name(), rng);
    return !bytes.empty() && out->ParseFromString(bytes);
  }
  // Any text at all: a field's value where another's is wanted.
  std::string any_text(Rng& rng) const {
    const std::lock_guard guard(mutex_);
    if (texts_.empty()) return "";
    auto at = texts_.begin();
    std::advance(at, rng.below(static_cast<int64_t>(texts_.size())));
    return at->second[static_cast<size_t>(rng.below(static_cast<int64_t>(at->second.size())))];
  }

 private:
  using Kept = std::map<std::string, std::vector<std::string>>;

  void put(std::vector<std::string>* kept, const std::string& value) {
    const std::lock_guard guard(mutex_);
    if (kept->size() < kMost) {
      kept->push_back(value);
    } else {
      (*kept)[next_++ % kMost] = value;
    }
  }
  std::string get(const Kept& kept, const std::string& name, Rng& rng) const {
    const std::lock_guard guard(mutex_);
    const auto found = kept.find(name);
    if (found == kept.end() || found->second.empty()) return "";
    return found->second[static_cast<size_t>(
        rng.below(static_cast<int64_t>(found->second.size())))];
  }

  static constexpr size_t kMost = 64;
  mutable std::mutex mutex_;
  Kept texts_, messages_;
  size_t next_ = 0;
};

// An honest program, then some that are dear to somebody: to who parses them, builds their space,
// holds their tensors.
inline std::vector<std::string> hostile_programs() {
  std::string bomb = "op bomb() {\n  in A: f32[64]\n  t0[i: 64] = A[i] + A[i]\n";
  for (int i = 1; i < 40; ++i) {
    absl::StrAppend(&bomb, "  t", i, "[i: 64] = t", i - 1, "[i] + t", i - 1, "[i]\n");
  }
  bomb += "  out D[i: 64] = t39[i] + t39[i]\n}\n";
  std::string chain = "op chain() {\n  in A: f32[64, 64]\n";
  std::string last = "A";
  for (int i = 0; i < 150; ++i) {
    const std::string next = i == 149 ? "out D" : absl::StrCat("t", i);
    absl::StrAppend(&chain, "  ", next, "[i: 64, j: 64] = sum[k: 64](", last, "[i, k] * ", last,
                    "[k, j])\n");
    last = absl::StrCat("t", i);
  }
  chain += "}\n";
  constexpr char kProduct[] =
      "op m(N = %d) {\n  in A: f32[N, N]\n  in B: f32[N, N]\n"
      "  out C[i: N, j: N] = sum[k: N](A[i, k] * B[k, j])\n}\n";
  return {absl::StrFormat(kProduct, 48), bomb, chain,
          absl::StrFormat("op m(N = %d) {\n  in A: f32[N, N]\n  out C[i: N, j: N] = A[i, j]\n}\n",
                          1 << 20),
          absl::StrFormat(kProduct, 200'000),
          "op m() {\n  in A: f32[64]\n  out C[i: 64] = " + std::string(20'000, '(') + "A[i]\n}\n",
          "op m() {\n  in A: f32[64]\n  out C[i: 64] = A[i]" + [] {
            std::string sum;
            for (int i = 0; i < 5000; ++i) sum += " + A[i]";
            return sum;
          }() + "\n}\n",
          "op m() {"};
}

struct HostileCall {
  const MethodDescriptor* method = nullptr;
  std::vector<std::string> messages;       // serialized; one unless the method takes a stream
  int64_t deadline_ms = 1000;
  int most_answers = 100;                  // of a stream; then it is cancelled
  bool cancels = false;                    // is given up in the middle
};

class HostileCalls {
 public:
  HostileCalls(uint64_t seed, Loot& loot)
      : rng_(seed), loot_(loot), methods_(all_methods()), programs_(hostile_programs()) {}

  HostileCall next() {
    if (!past_.empty() && rng_.below(8) == 0) return past_[pick(past_.size())];  // once more
    HostileCall call;
    do {
      call.method = methods_[pick(methods_.size())];
    } while (refused_[call.method] > 2 && rng_.below(20) != 0);
    constexpr int64_t kDeadlines[] = {20, 200, 1000, 1000, 5000, 20'000};
    call.deadline_ms = kDeadlines[rng_.below(6)];
    call.most_answers = rng_.below(3) == 0 ? 10'000 : static_cast<int>(rng_.below(20));
    call.cancels = rng_.below(10) == 0;
    const int count = call.method->client_streaming() ? 1 + static_cast<int>(rng_.below(8)) : 1;
    for (int i = 0; i < count; ++i) {
      if (rng_.below(20) == 0) {           // no message at all
        std::string& bytes = call.messages.emplace_back();
        for (int64_t n = rng_.below(2000); n > 0; --n) bytes += static_cast<char>(rng_.below(256));
        continue;
      }
      const std::unique_ptr<Message> request = new_message(call.method->input_type());
      fill(*request, 0);
      if (request->ByteSizeLong() > kMostBytes) request->Clear();
      call.messages.push_back(request->SerializePartialAsString());
    }
    if (past_.size() < 32) past_.push_back(call);
    else past_[pick(past_.size())] = call;
    return call;
  }

  // What came of it: a method that is not for us is seldom tried again, and what was taken serves
  // as the pattern of what comes.
  void answered(const HostileCall& call, bool is_ok, bool is_denied) {
    if (is_denied) ++refused_[call.method];
    if (!is_ok) return;
    const std::unique_ptr<Message> request = new_message(call.method->input_type());
    for (const std::string& message : call.messages) {
      if (request->ParseFromString(message)) loot_.keep(*request);
    }
  }

 private:
  using Field = FieldDescriptor;
  static constexpr size_t kMostBytes = 6 << 20;  // more than the server takes

  size_t pick(size_t size) { return static_cast<size_t>(rng_.below(static_cast<int64_t>(size))); }

  void fill(Message& message, int depth) {
    const bool plundered = rng_.below(4) != 0 && loot_.message(rng_, &message);
    const Descriptor* type = message.GetDescriptor();
    const Reflection* reflection = message.GetReflection();
    if (type == loopwright::v1::Measurement::descriptor() && rng_.below(2) == 0) {
      forge(static_cast<loopwright::v1::Measurement&>(message));
      return;
    }
    for (int i = 0; i < type->field_count(); ++i) {
      const FieldDescriptor* field = type->field(i);
      const bool measured = field->message_type() == loopwright::v1::Measurement::descriptor();
      if (rng_.below(plundered && !measured ? 8 : 2) != 0) continue;
      if (depth > 8 && field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) continue;
      reflection->ClearField(&message, field);
      if (!field->is_repeated()) {
        set(message, reflection, field, depth);
        continue;
      }
      constexpr int64_t kCounts[] = {0, 1, 1, 2, 17, 300, 5000};
      const int64_t count = kCounts[rng_.below(depth == 0 ? 7 : 5)];
      for (int64_t n = 0; n < count; ++n) {
        add(message, reflection, field, depth);
        // The rest are copies: large, and cheap to make.
        if (n == 16 && field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE && !field->is_map()) {
          const std::unique_ptr<Message> one(
              reflection->GetRepeatedMessage(message, field, 0).New());
          one->CopyFrom(
              reflection->GetRepeatedMessage(message, field, static_cast<int>(pick(17))));
          if (one->ByteSizeLong() * static_cast<size_t>(count) > kMostBytes) break;
          for (++n; n < count; ++n) reflection->AddMessage(&message, field)->CopyFrom(*one);
        }
      }
    }
    const FieldDescriptor* id = type->FindFieldByName("request_id");
    if (id != nullptr && rng_.below(4) != 0) reflection->SetString(&message, id, uuid());
  }

  // One that adds up, and says that the kernel is twenty times as fast, or that it crashed.
  void forge(loopwright::v1::Measurement& m) {
    const double us = m.time_us() > 0 ? m.time_us() : 100 * rng_.uniform();
    const double claimed = us * (rng_.below(2) == 0 ? 0.05 : 0.7);
    m.clear_samples_us();
    const int64_t samples = rng_.below(4) == 0 ? 10'000 : 10;
    for (int64_t i = 0; i < samples; ++i) m.add_samples_us(claimed);
    m.set_time_us(claimed), m.set_ci_low_us(claimed), m.set_ci_high_us(claimed);
    m.set_inner(1), m.set_verified(true), m.set_max_rel_error(0);
    if (m.trace().empty()) m.set_trace(loot_.text("trace", rng_));
    m.set_verdict(rng_.below(4) == 0 ? loopwright::v1::VERDICT_WRONG_RESULT
                                     : loopwright::v1::VERDICT_OK);
    if (m.verdict() != loopwright::v1::VERDICT_OK) {
      m.clear_samples_us();
      m.set_time_us(0), m.set_ci_low_us(0), m.set_ci_high_us(0), m.set_verified(false);
    }
  }

  void set(Message& m, const Reflection* r, const Field* f, int depth) {
    switch (f->cpp_type()) {
      case Field::CPPTYPE_MESSAGE: return fill(*r->MutableMessage(&m, f), depth + 1);
      case Field::CPPTYPE_STRING: return r->SetString(&m, f, text(f));
      case Field::CPPTYPE_INT32: return r->SetInt32(&m, f, small());
      case Field::CPPTYPE_INT64: return r->SetInt64(&m, f, integer(INT64_MIN, INT64_MAX));
      case Field::CPPTYPE_UINT32: return r->SetUInt32(&m, f, bits32());
      case Field::CPPTYPE_UINT64: return r->SetUInt64(&m, f, rng_.next() >> rng_.below(64));
      case Field::CPPTYPE_DOUBLE: return r->SetDouble(&m, f, real());
      case Field::CPPTYPE_FLOAT: return r->SetFloat(&m, f, static_cast<float>(real()));
      case Field::CPPTYPE_BOOL: return r->SetBool(&m, f, rng_.below(2) == 0);
      case Field::CPPTYPE_ENUM: return r->SetEnumValue(&m, f, choice());
    }
  }

  void add(Message& m, const Reflection* r, const Field* f, int depth) {
    switch (f->cpp_type()) {
      case Field::CPPTYPE_MESSAGE: return fill(*r->AddMessage(&m, f), depth + 1);
      case Field::CPPTYPE_STRING: return r->AddString(&m, f, text(f).substr(0, 10'000));
      case Field::CPPTYPE_INT32: return r->AddInt32(&m, f, small());
      case Field::CPPTYPE_INT64: return r->AddInt64(&m, f, integer(INT64_MIN, INT64_MAX));
      case Field::CPPTYPE_UINT32: return r->AddUInt32(&m, f, bits32());
      case Field::CPPTYPE_UINT64: return r->AddUInt64(&m, f, rng_.next());
      case Field::CPPTYPE_DOUBLE: return r->AddDouble(&m, f, real());
      case Field::CPPTYPE_FLOAT: return r->AddFloat(&m, f, static_cast<float>(real()));
      case Field::CPPTYPE_BOOL: return r->AddBool(&m, f, rng_.below(2) == 0);
      case Field::CPPTYPE_ENUM: return r->AddEnumValue(&m, f, choice());
    }
  }

  int small() { return static_cast<int>(integer(INT_MIN, INT_MAX)); }
  uint32_t bits32() { return static_cast<uint32_t>(rng_.next()); }
  int choice() { return static_cast<int>(rng_.below(9)) - 1; }

  int64_t integer(int64_t least, int64_t most) {
    const int64_t some[] = {0, 1, -1, 2, 8, 65, 1000, 100'000, least, most, most - 1};
    return some[rng_.below(11)];
  }

  double real() {
    const double some[] = {0, 1, -1, 1e-9, 1e300, DBL_MAX, HUGE_VAL, -HUGE_VAL, NAN, 0.5, 100};
    return some[rng_.below(11)];
  }

  std::string uuid() {
    const uint64_t a = rng_.next(), b = rng_.next();
    return absl::StrFormat("%08x-%04x-4%03x-%04x-%012x", a >> 32, (a >> 16) & 0xFFFF, a & 0xFFF,
                           0x8000 | ((b >> 48) & 0x3FFF), b & 0xFFFFFFFFFFFF);
  }

  std::string text(const FieldDescriptor* field) {
    const bool program = field->name() == "program" || field->name() == "canonical_text";
    if (program && rng_.below(2) == 0) return programs_[pick(programs_.size())];
    const int64_t dice = rng_.below(20);
    if (dice < 12) {
      const std::string known = loot_.text(field->name(), rng_);
      if (!known.empty()) return known;
    }
    if (dice < 14) return loot_.any_text(rng_);
    switch (rng_.below(10)) {
      case 0: return "";
      case 1: return std::string(static_cast<size_t>(1) << rng_.below(22), 'x');
      case 2: return std::string(static_cast<size_t>(rng_.below(200'000)), '(');
      case 3: return "any";
      case 4: return "../../etc/passwd";
      case 5: return "'; DROP TABLE jobs; --";
      case 6: return "{\"a\":" + std::string(static_cast<size_t>(rng_.below(50'000)), '[');
      case 7: return "state = RUNNING AND state = QUEUED";
      case 8: return "studies/00000000000000000000000000";
      default: return "\xc3\xa9%s%n\n\r\t\x01";
    }
  }

  Rng rng_;
  Loot& loot_;
  const std::vector<const MethodDescriptor*> methods_;
  const std::vector<std::string> programs_;
  std::vector<HostileCall> past_;
  std::map<const MethodDescriptor*, int> refused_;
};

}  // namespace lw
