// Records through a daemon: `records put | export | import`, lines as `db export` writes them, read
// and sent as a stream, so that neither side holds all of it; and `records withdraw | restore |
// withdrawn`, for those that nobody shall be given any more; and `records annul | reinstate`, for
// measurements that were worth nothing (records_annul.h).
#include <fstream>
#include <iostream>
#include <limits>

#include "loopwright/v1/schedule.grpc.pb.h"
#include "src/cli/commands.h"
#include "src/cli/service/lookup.h"
#include "src/cli/service/records_annul.h"
#include "src/cli/skipped.h"
#include "src/cli/subcommands.h"

namespace lw {
namespace {

namespace v1 = loopwright::v1;

constexpr double kStreamSeconds = 24 * 3600;
constexpr int kRecordsAMessage = 500, kPutRecords = 10'000;
constexpr size_t kBytesAMessage = 1 << 20;
constexpr int64_t kTellEvery = 10'000;     // records

struct RecordOptions {
  AnnulOptions annulling;
  RemoteService service;
  WorkloadOptions workload;
  Output output;
  std::string file, request_id, reason, evidence, trace_file, digest, cache = "warm";
  bool best_only = false, dry_run = false, strict = false;
  int most = 0;                            // 0: all
};
absl::StatusOr<std::unique_ptr<v1::ScheduleService::Stub>> schedules_of(
    const RecordOptions& options) {
  ASSIGN_OR_RETURN(const std::shared_ptr<grpc::Channel> channel, options.service.connect());
  return v1::ScheduleService::NewStub(channel);
}

// Lines of a file or of stdin as records.
class RecordLines {
 public:
  static absl::StatusOr<std::unique_ptr<RecordLines>> open(const std::string& path) {
    auto lines = std::make_unique<RecordLines>();
    lines->path_ = path;
    if (path != "-") lines->file_.open(path, std::ios::binary);
    if (path != "-" && !lines->file_) {
      return absl::InvalidArgumentError(concat("cannot read ", path, ": ", std::strerror(errno)));
    }
    return lines;
  }

  // False at the end. kInvalidArgument names the line. What another version wrote goes into
  // `skipped`; without, it is as good as damaged.
  absl::StatusOr<bool> next(v1::Record* record, Skipped* skipped) {
    std::istream& in = path_ == "-" ? std::cin : file_;
    std::string line, unknown;
    while (std::getline(in, line)) {
      ++number_;
      if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
      ++read_;
      absl::Status status = parse_record_line(line, record, &unknown);
      if (status.ok() && !unknown.empty()) {
        status = skipped == nullptr ? unknown_here(unknown)
                                    : explain(*record, unknown, absl::OkStatus());
        if (!status.ok() && skipped != nullptr) {
          skipped->add(std::string(status.message()), line);
          if (record->ByteSizeLong() == 0) continue;
          return true;                     // the workload or the target of lines to come
        }
      }
      if (status.ok()) return true;
      return absl::InvalidArgumentError(
          concat(path_, ": line ", number_, ": ", std::string(status.message())));
    }
    if (in.bad()) return environment(absl::UnavailableError(concat(path_, ": cannot be read")));
    return false;
  }

  int64_t read() const { return read_; }   // records

 private:
  std::string path_;
  std::ifstream file_;
  int64_t number_ = 0, read_ = 0;
};

// What of the records was taken in, but leads nothing; "": all may.
template <class Response>
std::string doubts_text(const Response& response) {
  std::string text;
  if (response.impossible() > 0) {
    text += concat(response.impossible(), " times are shorter than their targets can reach: kept "
                   "annulled (`history` says why)\n");
  }
  if (response.unchecked() > 0) {
    text += concat(response.unchecked(), " measurements are of workloads whose program the server does "
                   "not have: kept unconfirmed, until a study of them\n");
  }
  return text;
}

absl::StatusOr<int> put(const RecordOptions& options) {
  v1::PutRecordsRequest request;
  request.set_request_id(request_id_or_new(options.request_id));
  ASSIGN_OR_RETURN(const auto lines, RecordLines::open(options.file));
  while (true) {
    v1::Record record;
    ASSIGN_OR_RETURN(const bool more, lines->next(&record, /*skipped=*/nullptr));
    if (!more) break;
    *request.add_records() = std::move(record);
    if (request.records_size() > kPutRecords) {
      return absl::InvalidArgumentError(concat(options.file, ": more than ", kPutRecords,
                                               " records: use `records import`"));
    }
  }
  ASSIGN_OR_RETURN(const auto stub, schedules_of(options));
  v1::PutRecordsResponse response;
  RETURN_IF_ERROR(options.service.call(kCallSeconds, [&](grpc::ClientContext& context) {
    return stub->PutRecords(&context, request, &response);
  }));
  emit(options.output, {{"read", request.records_size()}, {"stored", response.stored()},
                        {"impossible", response.impossible()}, {"unchecked", response.unchecked()},
                        {"request_id", request.request_id()}},
       {{"read", "stored"}, {{concat(request.records_size()), concat(response.stored())}},
        {true, true}});
  if (const std::string text = doubts_text(response); !text.empty()) {
    options.output.note(text.substr(0, text.size() - 1));
  }
  return kDone;
}

Skipped skipped_of(const v1::ImportRecordsResponse& response) {
  Skipped skipped;
  skipped.records = response.skipped();
  for (const v1::SkippedRecords& kind : response.reasons()) {
    skipped.kinds.push_back({kind.reason(), kind.count(), kind.example()});
  }
  return skipped;
}

absl::StatusOr<int> import_all(const RecordOptions& options) {
  ASSIGN_OR_RETURN(const auto lines, RecordLines::open(options.file));
  ASSIGN_OR_RETURN(const auto stub, schedules_of(options));
  v1::ImportRecordsResponse response;
  Skipped skipped;
  absl::Status broken;                     // of our side, which the call's end would hide
  const absl::Status status =
      options.service.call(kStreamSeconds, [&](grpc::ClientContext& context) {
        const auto stream = stub->ImportRecords(&context, &response);
        int64_t sent = 0;
        bool more = true;
        while (more && broken.ok()) {
          v1::ImportRecordsRequest some;
          some.set_dry_run(options.dry_run);
          some.set_skip_unknown(!options.strict);
          size_t bytes = 0;
          while (some.records_size() < kRecordsAMessage && bytes < kBytesAMessage) {
            v1::Record record;
            const absl::StatusOr<bool> got =
                lines->next(&record, options.strict ? nullptr : &skipped);
            broken = got.status();
            more = got.ok() && *got;
            if (!more) break;
            bytes += record.ByteSizeLong();
            *some.add_records() = std::move(record);
          }
          if (some.records_size() == 0 || !broken.ok()) break;
          if (!stream->Write(some)) break; // Finish() says why
          const int64_t before = sent;
          sent += some.records_size();
          if (sent / kTellEvery != before / kTellEvery) {
            options.output.note(concat(sent, " records sent"));
          }
        }
        if (!broken.ok()) context.TryCancel();
        stream->WritesDone();
        return stream->Finish();
      });
  RETURN_IF_ERROR(broken);
  RETURN_IF_ERROR(status);
  skipped.add(skipped_of(response));
  Json json = {{"read", lines->read()}, {"stored", response.stored()},
               {"impossible", response.impossible()}, {"unchecked", response.unchecked()}};
  add_skipped(skipped, &json);
  emit(options.output, json,
       {{"read", "stored", "skipped"},
        {{concat(lines->read()), concat(response.stored()), concat(skipped.records)}},
        {true, true, true}},
       concat(response.stored(), " of ", lines->read(), " records were new",
              options.dry_run ? " (nothing stored)" : "", "\n", doubts_text(response),
              skipped_text(skipped)));
  return skipped.records == 0 ? kDone : kBadRequest;
}

absl::StatusOr<int> export_all(const RecordOptions& options) {
  const bool to_stdout = options.file.empty() || options.file == "-";
  std::ofstream file;
  if (!to_stdout) file.open(options.file, std::ios::binary | std::ios::trunc);
  std::ostream& out = to_stdout ? std::cout : file;
  const auto cannot_write = [&] {
    return environment(absl::UnavailableError(
        concat("cannot write ", to_stdout ? "stdout" : options.file, ": ", std::strerror(errno))));
  };
  if (!out) return cannot_write();
  ASSIGN_OR_RETURN(const auto stub, schedules_of(options));
  v1::ExportRecordsRequest request;
  request.set_best_only(options.best_only);
  int64_t count = 0;
  RETURN_IF_ERROR(options.service.call(kStreamSeconds, [&](grpc::ClientContext& context) {
    const auto stream = stub->ExportRecords(&context, request);
    v1::ExportRecordsResponse some;
    while (out && stream->Read(&some)) {
      for (const v1::Record& record : some.records()) {
        const std::string line = record_line(record);
        if (line.empty()) continue;
        out << line << "\n";
        if (++count % kTellEvery == 0) options.output.note(concat(count, " records"));
      }
    }
    if (!out) context.TryCancel();
    const grpc::Status end = stream->Finish();
    return out ? end : grpc::Status::OK;
  }));
  out.flush();
  if (!out) return cannot_write();
  if (to_stdout) return kDone;             // one JSON document a line, whatever the format
  emit(options.output, {{"file", options.file}, {"records", count}},
       {{"file", "records"}, {{options.file, concat(count)}}, {false, true}});
  return kDone;
}

Table withdrawn_table(const std::vector<v1::WithdrawnRecord>& records) {
  Table table{{"record", "workload", "threads", "when", "who", "reason", "trace"}, {},
              {false, false, true}};
  for (const v1::WithdrawnRecord& record : records) {
    table.rows.push_back({record.digest().substr(0, 12), record.key().workload().substr(0, 12),
                          concat(record.key().threads()), when(record.time()), record.actor(),
                          record.reason(), trace_as_line(record.trace())});
  }
  return table;
}

// The record that a look-up gives for the workload now, or another trace of its key.
absl::StatusOr<int> withdraw(const RecordOptions& options) {
  ASSIGN_OR_RETURN(const std::vector<Asked> asked, asked_workloads(options.workload, ""));
  ASSIGN_OR_RETURN(const std::vector<v1::LookupResult> found,
                   look_up_remotely(options.service, asked, options.cache,
                                    v1::LOOKUP_OUTCOME_LOOSE));
  if (found[0].outcome() != v1::LOOKUP_OUTCOME_EXACT &&
      found[0].outcome() != v1::LOOKUP_OUTCOME_LOOSE) {
    return absl::NotFoundError(concat("nobody is given a record of '", asked[0].words, "'"));
  }
  v1::WithdrawRecordRequest request;
  request.set_request_id(request_id_or_new(options.request_id));
  *request.mutable_key() = found[0].key();
  request.set_trace(found[0].measurement().trace());
  if (!options.trace_file.empty()) {
    ASSIGN_OR_RETURN(*request.mutable_trace(), read_text(options.trace_file));
  }
  request.set_reason(options.reason);
  request.set_evidence(options.evidence);
  ASSIGN_OR_RETURN(const auto stub, schedules_of(options));
  v1::WithdrawnRecord record;
  RETURN_IF_ERROR(options.service.call(kCallSeconds, [&](grpc::ClientContext& context) {
    return stub->WithdrawRecord(&context, request, &record);
  }));
  emit(options.output, as_json(record), withdrawn_table({record}));
  return kDone;
}

absl::StatusOr<std::vector<v1::WithdrawnRecord>> read_withdrawn(const RecordOptions& options) {
  const int most = options.most > 0 ? options.most : std::numeric_limits<int>::max();
  ASSIGN_OR_RETURN(const auto stub, schedules_of(options));
  std::vector<v1::WithdrawnRecord> records;
  RETURN_IF_ERROR(list_all<v1::ListWithdrawnResponse>(
      options.service, v1::ListWithdrawnRequest(), most,
      [&](grpc::ClientContext& context, const auto& asked, auto* page) {
        return stub->ListWithdrawn(&context, asked, page);
      },
      [&](v1::ListWithdrawnResponse& page) {
        for (auto& record : *page.mutable_records()) records.push_back(std::move(record));
        return static_cast<int>(records.size());
      }));
  return records;
}

absl::StatusOr<int> list_withdrawn(const RecordOptions& options) {
  ASSIGN_OR_RETURN(const std::vector<v1::WithdrawnRecord> records, read_withdrawn(options));
  Json list = Json::array();
  for (const v1::WithdrawnRecord& record : records) list.push_back(as_json(record));
  emit(options.output, {{"withdrawn", list}}, withdrawn_table(records));
  return kDone;
}

absl::StatusOr<int> restore(const RecordOptions& options) {
  ASSIGN_OR_RETURN(const std::vector<v1::WithdrawnRecord> records, read_withdrawn(options));
  v1::RestoreRecordRequest request;
  request.set_request_id(request_id_or_new(options.request_id));
  request.set_digest(options.digest);
  int matches = 0;
  for (const v1::WithdrawnRecord& record : records) {
    if (record.digest().rfind(options.digest, 0) != 0) continue;
    request.set_digest(record.digest());
    ++matches;
  }
  if (matches > 1) {
    return absl::InvalidArgumentError(concat(matches, " withdrawn records begin with '",
                                             options.digest, "'"));
  }
  ASSIGN_OR_RETURN(const auto stub, schedules_of(options));
  v1::RestoreRecordResponse response;
  RETURN_IF_ERROR(options.service.call(kCallSeconds, [&](grpc::ClientContext& context) {
    return stub->RestoreRecord(&context, request, &response);
  }));
  emit(options.output, as_json(response), withdrawn_table({response.record()}));
  return kDone;
}

Action declare_records(CliArguments app) {
  Subcommands<RecordOptions> commands(app, nullptr);
  RecordOptions* options = commands.options.get();
  const auto add = [&](const char* name, const char* help, auto run) {
    CliArguments sub = commands.add(app, name, help, run);
    add_service(sub, &options->service);
    add_output(sub, &options->output);
    return sub;
  };
  CliArguments putting = add("put", "store the records of a file, all or none", put);
  putting.add_option("file", options->file, "lines as `db export` writes them; - for stdin")
      .required();
  add_request_id(putting, &options->request_id);
  CliArguments exporting = add("export", "all records, one JSON line each", export_all);
  exporting.add_option("-o,--output", options->file, "file to write (default: stdout)");
  exporting.add_flag("--best", options->best_only, "only the best of each key");
  CliArguments importing = add("import",
                            "store a file's records; what is there already is passed over, "
                            "so a broken import is simply repeated",
                            import_all);
  importing.add_option("file", options->file, "lines as `db export` writes them; - for stdin")
      .required();
  importing.add_flag("--dry-run", options->dry_run, "check them, store nothing");
  add_strict(importing, &options->strict);
  CliArguments withdrawing = add("withdraw", "give the record that a workload gets now to nobody any "
                                          "more; what was measured stays", withdraw);
  add_workload(withdrawing, &options->workload);
  withdrawing.add_option("--cache", options->cache, "warm or cold: how it was measured")
      .one_of({"warm", "cold"}).capture_default_str();
  withdrawing.add_option("--trace", options->trace_file, "file: this trace of its key instead");
  withdrawing.add_option("--reason", options->reason, "why").required();
  withdrawing.add_option("--evidence", options->evidence, "what shows it");
  add_request_id(withdrawing, &options->request_id);
  CliArguments restoring = add("restore", "give a withdrawn record out again", restore);
  restoring.add_option("record", options->digest, "the beginning of its digest, as `records "
                                                   "withdrawn` shows it").required();
  add_request_id(restoring, &options->request_id);
  add("withdrawn", "the records that are withdrawn, and why", list_withdrawn)
      .add_option("--most", options->most, "how many, the latest first; 0: all")
      .not_negative().capture_default_str();
  const auto add_marking = [&](const char* name, const char* help, auto run) {
    CliArguments sub = commands.add(app, name, help, run);
    add_annul_options(sub, &options->annulling);
  };
  add_marking("annul", "let measurements of a workload, an agent, a device count for nothing any "
                       "more; they are kept, with the reason",
              [](const RecordOptions& all) { return annul(all.annulling); });
  add_marking("reinstate", "let annulled measurements count again",
              [](const RecordOptions& all) { return reinstate(all.annulling); });
  return commands.action();
}

}  // namespace

const CommandGroup& records_commands() {
  static const CommandGroup group = {170, {
      {"records", "records of a daemon: put, export, import, withdraw, restore, withdrawn, "
                  "annul, reinstate", declare_records},
  }};
  return group;
}

}  // namespace lw
