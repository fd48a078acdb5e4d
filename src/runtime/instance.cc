#include "src/runtime/instance.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>

#include "src/runtime/foreign_pool.h"
#include "src/runtime/process_pool.h"
#include "src/runtime/processor.h"
#include "src/runtime/workspace.h"

namespace lw {
namespace {

constexpr int kMostWorkers = 4096;

bool aligned_to(const void* pointer, int64_t alignment) {
  return reinterpret_cast<uintptr_t>(pointer) % static_cast<uintptr_t>(alignment) == 0;
}

std::string of_kernel(const lw_kernel& kernel) { return std::string(kernel.name) + ": "; }

bool overlap(const void* a, int64_t a_bytes, const void* b, int64_t b_bytes) {
  const auto first = reinterpret_cast<uintptr_t>(a), second = reinterpret_cast<uintptr_t>(b);
  return first < second + static_cast<uintptr_t>(b_bytes) &&
         second < first + static_cast<uintptr_t>(a_bytes);
}

Failure refused(const lw_kernel& kernel, int32_t code) {
  if (code == 0) return {};
  return {FailureCode::kBug,
          of_kernel(kernel) + "refused its context with " + std::to_string(code)};
}

}  // namespace

Failure KernelInstance::create(const lw_kernel* kernel, std::shared_ptr<const void> code,
                               std::unique_ptr<KernelInstance>* instance) {
  if (kernel == nullptr) return bad_request("the kernel's table is null");
  if (kernel->abi != LOOPWRIGHT_ABI) {
    return bad_request("the kernel is of ABI " + std::to_string(kernel->abi) +
                       ", this program loads ABI " + std::to_string(LOOPWRIGHT_ABI) +
                       ": export it again, or update the one that is older");
  }
  const bool whole = kernel->name != nullptr && kernel->run != nullptr &&
                     kernel->features != nullptr && kernel->digest != nullptr &&
                     kernel->facts != nullptr && kernel->arguments >= 0 &&
                     (kernel->arguments == 0 || kernel->argument != nullptr) &&
                     kernel->workspace_bytes >= 0 && kernel->private_bytes >= 0 &&
                     kernel->packed_bytes >= 0 && kernel->threads >= 1 &&
                     (kernel->packed_bytes == 0 || kernel->prepack != nullptr);
  if (!whole) return bad_request("the kernel's table is none of ABI " +
                                 std::to_string(LOOPWRIGHT_ABI));
  const std::string missing = missing_of(kernel->features);
  if (!missing.empty()) {
    return environment_failure(of_kernel(*kernel) + "this processor lacks " + missing +
                               ", which the kernel uses: take one for another target");
  }
  instance->reset(new KernelInstance(kernel, std::move(code)));
  return {};
}

int64_t KernelInstance::workspace_bytes(int workers) const {
  return lw_workspace_bytes(kernel_, workers > 0 ? workers : kernel_->threads);
}

int KernelInstance::own_workers() const {
  if (kernel_->threads == 1) return 1;
  return static_cast<int>(std::min<int64_t>(kernel_->threads, pool_workers()));
}

Failure KernelInstance::check(void* const* buffers, const void* packed, bool packing) const {
  const lw_kernel& k = *kernel_;
  if (buffers == nullptr && k.arguments > 0) return bad_request(of_kernel(k) + "buffers is null");
  // Packing reads the const inputs alone, and running need not be given what it does not read.
  const int32_t needed = packing ? LW_CONST : LW_READ_BY_RUN | LW_OUTPUT;
  for (int i = 0; i < k.arguments; ++i) {
    const lw_argument& one = k.argument[i];
    if ((one.flags & needed) == 0 || one.bytes == 0) continue;
    if (buffers[i] == nullptr) return bad_request(of_kernel(k) + one.name + " is null");
    if (!aligned_to(buffers[i], one.alignment)) {
      return bad_request(of_kernel(k) + one.name + " is not aligned to its elements, " + one.type +
                         " of " + std::to_string(one.alignment) + " bytes");
    }
  }
  for (int i = 0; i < k.arguments && !packing; ++i) {
    if ((k.argument[i].flags & LW_OUTPUT) == 0) continue;
    for (int j = 0; j < k.arguments; ++j) {
      if (i == j || (k.argument[j].flags & needed) == 0) continue;
      if (overlap(buffers[i], k.argument[i].bytes, buffers[j], k.argument[j].bytes)) {
        return bad_request(of_kernel(k) + k.argument[i].name + " overlaps " + k.argument[j].name +
                           ": the output must have memory of its own");
      }
    }
  }
  if (k.packed_bytes == 0) return {};
  if (packed == nullptr) {
    return bad_request(of_kernel(k) + "packed is null: the kernel needs " +
                       std::to_string(k.packed_bytes) + " bytes that prepack has written");
  }
  if (!aligned_to(packed, LW_LINE)) {
    return bad_request(of_kernel(k) + "packed is not aligned to 64 bytes");
  }
  return {};
}

Failure KernelInstance::prepack(void* const* buffers, void* packed) const {
  if (kernel_->packed_bytes == 0) return {};
  Failure failure = check(buffers, packed, /*packing=*/true);
  if (!failure.ok()) return failure;
  // It may need private memory as a run does.
  const int64_t bytes = workspace_bytes(1);
  void* workspace = bytes > 0 ? spare_.take(bytes) : nullptr;
  if (bytes > 0 && workspace == nullptr) {
    return environment_failure(of_kernel(*kernel_) + "no memory for " + std::to_string(bytes) +
                               " bytes of workspace");
  }
  lw_context context{nullptr, nullptr, 1, workspace, packed};
  const int32_t code = kernel_->prepack(&context, buffers);
  if (workspace != nullptr) spare_.give(workspace);
  return refused(*kernel_, code);
}

Failure KernelInstance::run(const InstanceCall& call) const {
  Failure failure = check(call.buffers, call.packed, /*packing=*/false);
  if (!failure.ok()) return failure;
  if (call.workers < 0 || call.workers > kMostWorkers) {
    return bad_request(of_kernel(*kernel_) + "workers must be 0 to " +
                       std::to_string(kMostWorkers) + ", not " + std::to_string(call.workers));
  }
  const bool foreign = call.parallel_for != nullptr || call.schedule != nullptr;
  const int wanted = call.workers > 0 ? call.workers
                     : foreign        ? static_cast<int>(kernel_->threads)
                                      : own_workers();
  const int64_t bytes = workspace_bytes(wanted);
  void* own = nullptr;
  if (call.workspace != nullptr && !aligned_to(call.workspace, LW_LINE)) {
    return bad_request(of_kernel(*kernel_) + "workspace is not aligned to 64 bytes");
  }
  if (call.workspace == nullptr && bytes > 0) {
    own = spare_.take(bytes);
    if (own == nullptr) {
      return environment_failure(of_kernel(*kernel_) + "no memory for " + std::to_string(bytes) +
                                 " bytes of workspace");
    }
  }
  PoolShare share{wanted};
  ForeignPool pool{call.schedule, call.pool, wanted};
  lw_context context{};
  context.workers = wanted;
  context.workspace = own != nullptr ? own : call.workspace;
  context.packed = call.packed;
  if (wanted > 1 && call.parallel_for != nullptr) {
    context.parallel_for = call.parallel_for;
    context.pool = call.pool;
  } else if (wanted > 1 && call.schedule != nullptr) {
    context.parallel_for = foreign_parallel_for;
    context.pool = &pool;
  } else if (wanted > 1) {
    context.parallel_for = pool_parallel_for;
    context.pool = &share;
  }
  const int32_t code = kernel_->run(&context, call.buffers);
  if (own != nullptr) spare_.give(own);
  return refused(*kernel_, code);
}

}  // namespace lw
