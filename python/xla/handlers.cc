// XLA's foreign functions, for the CPU. Both are pure: what they need beside arguments and results comes
// as operands (packed inputs) and goes as results (the workspace), so that XLA plans the memory.
//   loopwright_run(inputs that the kernel reads..., packed if it packs) -> results..., workspace
//   loopwright_pack(const inputs...) -> packed
// The attribute `kernel` is a digest (registry.h). Shapes and types were checked when the program was
// traced (loopwright/jax.py); sizes are checked again here, since programs are also read from disk.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "python/xla/registry.h"
#include "src/runtime/workspace.h"
#include "xla/ffi/api/ffi.h"

namespace lw::xla {
namespace {

namespace ffi = ::xla::ffi;

ffi::Error error_of(const Failure& failure) {
  switch (failure.code) {
    case FailureCode::kNone: return ffi::Error::Success();
    case FailureCode::kBadRequest: return ffi::Error::InvalidArgument(failure.text);
    case FailureCode::kEnvironment: return {ffi::ErrorCode::kUnavailable, failure.text};
    case FailureCode::kBug: break;
  }
  return ffi::Error::Internal(failure.text);
}

ffi::Error unknown(std::string_view digest) {
  return {ffi::ErrorCode::kNotFound,
          "loopwright: no kernel " + std::string(digest) +
              " is registered in this process: loopwright.jax.register() it before the program runs"};
}

ffi::Error wrong_size(const KernelInstance& kernel, std::string_view what, int64_t given,
                      int64_t wanted) {
  return ffi::Error::InvalidArgument(std::string(kernel.kernel().name) + ": " + std::string(what) +
                                     " has " + std::to_string(given) + " bytes, the kernel takes " +
                                     std::to_string(wanted));
}

ffi::Error wrong_count(const KernelInstance& kernel) {
  return ffi::Error::InvalidArgument(std::string(kernel.kernel().name) +
                                     ": the program has another number of operands or results");
}

// Memory of whole lines: `given` where it is, else a block of our own.
class Lines {
 public:
  Lines(void* given, size_t bytes) : data_(given) {
    if (reinterpret_cast<uintptr_t>(given) % LW_LINE == 0) return;
    const int64_t whole = lw_whole_lines(static_cast<int64_t>(bytes));
    own_.reset(std::aligned_alloc(LW_LINE, static_cast<size_t>(whole)));
    data_ = own_.get();
  }
  void* data() const { return data_; }     // null: there is no memory
  bool is_own() const { return own_ != nullptr; }

 private:
  struct Free {
    void operator()(void* block) const { std::free(block); }
  };
  std::unique_ptr<void, Free> own_;
  void* data_;
};

// XLA's pool, a task at a time; src/runtime/foreign_pool.h says how little it promises.
void schedule(void* pool, void (*task)(void* argument), void* argument) {
  static_cast<ffi::ThreadPool*>(pool)->Schedule([task, argument] { task(argument); });
}

// The memory of operand `i`, or an error.
ffi::Error operand(const KernelInstance& kernel, const ffi::RemainingArgs& operands, size_t i,
                   std::string_view name, int64_t bytes, void** data) {
  const ffi::ErrorOr<ffi::AnyBuffer> buffer = operands.get<ffi::AnyBuffer>(i);
  if (!buffer.has_value()) return buffer.error();
  const auto given = static_cast<int64_t>(buffer->size_bytes());
  if (given != bytes) return wrong_size(kernel, name, given, bytes);
  *data = buffer->untyped_data();
  return ffi::Error::Success();
}

ffi::Error result(const KernelInstance& kernel, const ffi::RemainingRets& results, size_t i,
                  std::string_view name, int64_t bytes, void** data) {
  ffi::ErrorOr<ffi::Result<ffi::AnyBuffer>> buffer = results.get<ffi::AnyBuffer>(i);
  if (!buffer.has_value()) return buffer.error();
  const auto given = static_cast<int64_t>((*buffer)->size_bytes());
  if (given < bytes) return wrong_size(kernel, name, given, bytes);
  *data = (*buffer)->untyped_data();
  return ffi::Error::Success();
}

ffi::Error run(ffi::ThreadPool pool, std::string_view digest, ffi::RemainingArgs operands,
               ffi::RemainingRets results) {
  const std::shared_ptr<const KernelInstance> kernel = find_kernel(digest);
  if (kernel == nullptr) return unknown(digest);
  const lw_kernel& table = kernel->kernel();
  std::vector<void*> buffers(static_cast<size_t>(table.arguments), nullptr);
  size_t next_operand = 0, next_result = 0;
  for (size_t i = 0; i < buffers.size(); ++i) {
    const lw_argument& one = table.argument[i];
    ffi::Error error = ffi::Error::Success();
    if ((one.flags & LW_OUTPUT) != 0) {
      if (next_result == results.size()) return wrong_count(*kernel);
      error = result(*kernel, results, next_result++, one.name, one.bytes, &buffers[i]);
    } else if ((one.flags & LW_READ_BY_RUN) != 0) {
      if (next_operand == operands.size()) return wrong_count(*kernel);
      error = operand(*kernel, operands, next_operand++, one.name, one.bytes, &buffers[i]);
    }
    if (error.failure()) return error;
  }

  InstanceCall call;
  call.buffers = buffers.data();
  call.workers = static_cast<int>(std::clamp<int64_t>(pool.num_threads(), 1, table.threads));
  if (call.workers > 1) {
    call.schedule = schedule;
    call.pool = &pool;
  }
  void* packed = nullptr;
  if (table.packed_bytes > 0) {
    if (next_operand == operands.size()) return wrong_count(*kernel);
    const ffi::Error error =
        operand(*kernel, operands, next_operand++, "packed", table.packed_bytes, &packed);
    if (error.failure()) return error;
  }
  // What was packed into whole lines may have moved since, to memory that is none.
  const Lines lines(packed, static_cast<size_t>(table.packed_bytes));
  if (lines.is_own()) std::memcpy(lines.data(), packed, static_cast<size_t>(table.packed_bytes));
  call.packed = lines.data();

  const int64_t bytes = kernel->workspace_bytes(call.workers);
  if (bytes > 0) {
    if (next_result == results.size()) return wrong_count(*kernel);
    void* workspace = nullptr;
    const ffi::Error error =
        result(*kernel, results, next_result++, "workspace", bytes + LW_LINE,
               &workspace);
    if (error.failure()) return error;
    const uintptr_t address = reinterpret_cast<uintptr_t>(workspace);
    call.workspace = reinterpret_cast<void*>(lw_whole_lines(static_cast<int64_t>(address)));
  }
  if (next_operand != operands.size() || next_result != results.size()) return wrong_count(*kernel);
  return error_of(kernel->run(call));
}

ffi::Error pack(std::string_view digest, ffi::RemainingArgs operands, ffi::RemainingRets results) {
  const std::shared_ptr<const KernelInstance> kernel = find_kernel(digest);
  if (kernel == nullptr) return unknown(digest);
  const lw_kernel& table = kernel->kernel();
  std::vector<void*> buffers(static_cast<size_t>(table.arguments), nullptr);
  size_t next = 0;
  for (size_t i = 0; i < buffers.size(); ++i) {
    const lw_argument& one = table.argument[i];
    if ((one.flags & LW_CONST) == 0) continue;
    if (next == operands.size()) return wrong_count(*kernel);
    const ffi::Error error =
        operand(*kernel, operands, next++, one.name, one.bytes, &buffers[i]);
    if (error.failure()) return error;
  }
  if (next != operands.size() || results.size() != 1) return wrong_count(*kernel);
  void* packed = nullptr;
  const ffi::Error error = result(*kernel, results, 0, "packed", table.packed_bytes, &packed);
  if (error.failure()) return error;
  const auto bytes = static_cast<size_t>(table.packed_bytes);
  const Lines lines(packed, bytes);
  const Failure failure = kernel->prepack(buffers.data(), lines.data());
  if (failure.ok() && lines.is_own()) std::memcpy(packed, lines.data(), bytes);
  return error_of(failure);
}

}  // namespace
}  // namespace lw::xla

#pragma GCC visibility push(default)

XLA_FFI_DEFINE_HANDLER_SYMBOL(loopwright_run, lw::xla::run,
                              lw::xla::ffi::Ffi::Bind()
                                  .Ctx<lw::xla::ffi::ThreadPool>()
                                  .Attr<std::string_view>("kernel")
                                  .RemainingArgs()
                                  .RemainingRets());
XLA_FFI_DEFINE_HANDLER_SYMBOL(loopwright_pack, lw::xla::pack,
                              lw::xla::ffi::Ffi::Bind()
                                  .Attr<std::string_view>("kernel")
                                  .RemainingArgs()
                                  .RemainingRets());

#pragma GCC visibility pop
