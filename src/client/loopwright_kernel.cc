// Kernels in C: what was exported is loaded, what a client finds is generated here.
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <memory>

#include "loopwright/client.h"
#include "loopwright/kernel.h"
#include "loopwright/loopwright.h"
#include "nlohmann/json.hpp"
#include "src/api/kernel_facts.h"
#include "src/api/lookup.h"
#include "src/api/task.h"
#include "src/base/check.h"
#include "src/base/files.h"
#include "src/base/hash.h"
#include "src/base/message.h"
#include "src/build/build.h"
#include "src/client/c_client.h"
#include "src/client/c_reply.h"
#include "src/kernel/kernel.h"
#include "src/runtime/kernel_library.h"
#include "src/runtime/process_pool.h"

struct loopwright_kernel {
  std::unique_ptr<lw::KernelInstance> instance;
};

namespace {

absl::Status status_of(const lw::Failure& failure) {
  switch (failure.code) {
    case lw::FailureCode::kNone: return absl::OkStatus();
    case lw::FailureCode::kBadRequest: return absl::InvalidArgumentError(failure.text);
    case lw::FailureCode::kEnvironment: return absl::UnavailableError(failure.text);
    case lw::FailureCode::kBug: return absl::InternalError(failure.text);
  }
  return absl::InternalError(failure.text);
}

// The client's answer, or without one the schedule that nobody measured.
absl::StatusOr<lw::Choice> choice_for(loopwright_client* client, const lw::Task& task) {
  if (client == nullptr) {
    ASSIGN_OR_RETURN(const lw::LookupAnswer answer, lw::default_answer(task, {}));
    return lw::as_choice(answer);
  }
  ASSIGN_OR_RETURN(const lw::ClientAnswer found, client->client->lookup(task));
  if (found.answer.kernel == nullptr) {
    return absl::NotFoundError(lw::concat("'", task.workload().source_words, "' is not tuned"));
  }
  return lw::as_choice(found.answer);
}

absl::StatusOr<std::unique_ptr<lw::KernelInstance>> generate(const lw::Task& task,
                                                             const lw::Choice& choice) {
  ASSIGN_OR_RETURN(const lw::DescribedKernel kernel, lw::build_described(task, choice, ""));
  absl::StatusOr<std::unique_ptr<lw::Loaded>> loaded = lw::load(kernel.artifact);
  const bool of_elsewhere =
      loaded.ok() ? (*loaded)->described() == nullptr : !absl::IsInternal(loaded.status());
  if (of_elsewhere) {
    return absl::UnimplementedError(
        lw::concat("kernels for '", task.target()->name, "' do not run in this process: "
                   "loopwright_export writes what launches them"));
  }
  if (!loaded.ok()) return loaded.status();
  const lw_kernel* table = (*loaded)->described();
  std::unique_ptr<lw::KernelInstance> instance;
  RETURN_IF_ERROR(status_of(lw::KernelInstance::create(
      table, std::shared_ptr<const void>(*std::move(loaded)), &instance)));
  return instance;
}

// The library that NAME.json speaks of, if it still is what that says.
absl::StatusOr<std::string> library_of(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, lw::read_file(path));
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  const bool whole = json.is_object() && json.contains("library") && json["library"].is_string() &&
                     json.contains("files") && json["files"].is_object();
  if (!whole) {
    return absl::InvalidArgumentError(
        lw::concat(path, " names no library: make it by `loopwright export --shared`"));
  }
  const std::string name = json["library"];
  if (name.find('/') != std::string::npos || !json["files"].contains(name)) {
    return absl::InvalidArgumentError(lw::concat(path, ": '", name, "' is not among its files"));
  }
  const std::string file = (std::filesystem::path(path).parent_path() / name).string();
  ASSIGN_OR_RETURN(const std::string bytes, lw::read_file(file));
  if (json["files"][name] != lw::sha256(bytes)) {
    return absl::DataLossError(
        lw::concat(file, " is not the file that ", path, " speaks of: export it again"));
  }
  return file;
}

absl::StatusOr<std::unique_ptr<lw::KernelInstance>> load(const std::string& path) {
  std::string library = path;
  if (path.ends_with(".json")) {
    absl::StatusOr<std::string> named = library_of(path);
    if (absl::IsNotFound(named.status())) return absl::UnavailableError(named.status().message());
    ASSIGN_OR_RETURN(library, std::move(named));
  }
  std::unique_ptr<lw::KernelInstance> instance;
  RETURN_IF_ERROR(status_of(lw::load_kernel_library(library, &instance)));
  return instance;
}

int32_t hand_over(absl::StatusOr<std::unique_ptr<lw::KernelInstance>> made,
                  loopwright_kernel** kernel, char* error, size_t size) {
  if (!made.ok()) return lw::report(made.status(), error, size);
  *kernel = new loopwright_kernel{*std::move(made)};
  return LOOPWRIGHT_OK;
}

}  // namespace

int32_t loopwright_kernel_open(loopwright_client* client, const loopwright_task* asked,
                               loopwright_kernel** kernel, char* error, size_t error_size) {
  if (kernel == nullptr) return lw::lacks("kernel", error, error_size);
  *kernel = nullptr;
  const auto make = [&]() -> absl::StatusOr<std::unique_ptr<lw::KernelInstance>> {
    ASSIGN_OR_RETURN(const lw::Task task, lw::task_asked(asked));
    ASSIGN_OR_RETURN(const lw::Choice choice, choice_for(client, task));
    return generate(task, choice);
  };
  return hand_over(make(), kernel, error, error_size);
}

int32_t loopwright_kernel_load(const char* path, loopwright_kernel** kernel, char* error,
                               size_t error_size) {
  if (kernel == nullptr) return lw::lacks("kernel", error, error_size);
  *kernel = nullptr;
  if (path == nullptr) return lw::lacks("path", error, error_size);
  return hand_over(load(path), kernel, error, error_size);
}

int32_t loopwright_kernel_of(const lw_kernel* table, loopwright_kernel** kernel, char* error,
                             size_t error_size) {
  if (kernel == nullptr) return lw::lacks("kernel", error, error_size);
  *kernel = nullptr;
  std::unique_ptr<lw::KernelInstance> instance;
  const absl::Status made = status_of(lw::KernelInstance::create(table, nullptr, &instance));
  if (!made.ok()) return lw::report(made, error, error_size);
  *kernel = new loopwright_kernel{std::move(instance)};
  return LOOPWRIGHT_OK;
}

void loopwright_kernel_close(loopwright_kernel* kernel) { delete kernel; }

const lw_kernel* loopwright_kernel_table(const loopwright_kernel* kernel) {
  return kernel == nullptr ? nullptr : &kernel->instance->kernel();
}

const char* loopwright_kernel_info(const loopwright_kernel* kernel) {
  return kernel == nullptr ? "" : kernel->instance->kernel().facts;
}

int64_t loopwright_kernel_workspace_bytes(const loopwright_kernel* kernel, int32_t workers) {
  return kernel == nullptr ? 0 : kernel->instance->workspace_bytes(workers);
}

int32_t loopwright_kernel_prepack(const loopwright_kernel* kernel, void* const* buffers,
                                  void* packed, char* error, size_t error_size) {
  if (kernel == nullptr) return lw::lacks("kernel", error, error_size);
  return lw::report(status_of(kernel->instance->prepack(buffers, packed)), error, error_size);
}

int32_t loopwright_kernel_run(const loopwright_kernel* kernel, const loopwright_call* call,
                              char* error, size_t error_size) {
  if (kernel == nullptr) return lw::lacks("kernel", error, error_size);
  if (call == nullptr) return lw::lacks("call", error, error_size);
  loopwright_call known{};
  std::memcpy(&known, call, std::min(call->size, sizeof known));
  lw::InstanceCall asked;
  asked.buffers = known.buffers;
  asked.packed = known.packed;
  asked.workspace = known.workspace;
  asked.workers = known.workers;
  asked.parallel_for = known.parallel_for;
  asked.schedule = known.schedule;
  asked.pool = known.pool;
  const lw::Failure failure = kernel->instance->run(asked);
  return failure.ok() ? LOOPWRIGHT_OK : lw::report(status_of(failure), error, error_size);
}

void loopwright_set_num_threads(int32_t threads) { lw::set_pool_workers(threads); }

int32_t loopwright_export(loopwright_client* client, const loopwright_task* asked,
                          const char* folder, const char* entry, int32_t shared, char* error,
                          size_t error_size) {
  if (folder == nullptr) return lw::lacks("folder", error, error_size);
  const auto write = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(const lw::Task task, lw::task_asked(asked));
    ASSIGN_OR_RETURN(const lw::Choice choice, choice_for(client, task));
    return lw::export_kernel(task, choice, folder, {.entry = lw::text_or_none(entry),
                                                .shared = shared != 0})
        .status();
  };
  return lw::report(write(), error, error_size);
}
