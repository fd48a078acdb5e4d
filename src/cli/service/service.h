// What the commands that ask a service share: its address, credentials, deadlines, its errors.
#pragma once

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <cctype>
#include <memory>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "google/protobuf/message.h"
#include "google/protobuf/timestamp.pb.h"
#include "src/cli/common.h"
#include "src/net/channel.h"

namespace lw {

struct RemoteService {
  ServerAddress server;

  // The options that say the same again, each after a blank; "" for the default's.
  std::string words() const;
  // To the first server that answers; gives one that was only just started a few seconds. That
  // there is none the first call says.
  absl::StatusOr<std::shared_ptr<grpc::Channel>> connect() const;
  // Makes one call with a deadline, `body` with the context that it needs. An error says what to do
  // about it, and has a command's exit code: what is the server's or the network's is marked by
  // environment().
  absl::Status call(double deadline_s,
                    absl::FunctionRef<grpc::Status(grpc::ClientContext& context)> body) const;
};

// --server (or LOOPWRIGHT_SERVER), --tls-ca, --tls-cert, --tls-key, --insecure.
void add_service(CliArguments app, RemoteService* service);
// All of these but --server.
void add_tls(CliArguments app, RemoteService* service);

constexpr double kCallSeconds = 30;        // the deadline of a call that does not wait for work

// With the names of the protos' fields, zeros included.
Json as_json(const google::protobuf::Message& message);
std::string when(const google::protobuf::Timestamp& time);  // "2026-08-01 12:00:00", UTC; "-" for 0
// "X" -> "studies/X"; a name that has a collection already stays.
std::string with_collection(const std::string& name, const std::string& collection);
// The id of a request that changes something: the user's, else a new one.
std::string request_id_or_new(const std::string& given);
void add_request_id(CliArguments app, std::string* id);
// NAME=VALUE. kInvalidArgument names the option.
absl::StatusOr<std::pair<std::string, std::string>> parse_label(const std::string& text);

// "quarantined" of DEVICE_ADMISSION_QUARANTINED: what stands after the enum's prefix.
template <class Enum>
std::string enum_text(Enum value) {
  const google::protobuf::EnumDescriptor* type = google::protobuf::GetEnumDescriptor<Enum>();
  const auto* found = type->FindValueByNumber(static_cast<int>(value));
  if (found == nullptr) return "?";
  const size_t prefix = type->value(0)->name().size() - std::string_view("UNSPECIFIED").size();
  std::string text = found->name().substr(prefix);
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

// All rows of a list, page by page, at most `most`. `ask` makes the call; `take` appends a page's
// rows to what it keeps, and returns how many there are now.
template <class Response, class Request, class Ask, class Take>
absl::Status list_all(const RemoteService& service, Request request, int most, Ask ask,
                      Take take) {
  int have = 0;
  do {
    request.set_page_size(std::min(500, most - have));
    Response page;
    RETURN_IF_ERROR(service.call(kCallSeconds, [&](grpc::ClientContext& context) {
      return ask(context, request, &page);
    }));
    have = take(page);
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty() && have < most);
  return absl::OkStatus();
}

}  // namespace lw
