// From a kernel to an LLVM module: functions and control flow (llvm_values.cc: integers, addresses;
// llvm_memory.cc: loads and stores; llvm_ops.cc, llvm_cast.cc, llvm_math.cc: values).
//
// Registers become one stack slot each, which mem2reg turns into values: a GEMM tile's accumulators
// are then phis of its reduction loop. Integer variables are values from the start, since they are
// live to the end of their list. The body of a parallel For becomes an internal function
//   void body(closure*, int64 index, int64 worker)
// whose closure, on the stack of the caller, holds the context, the argument table and the integer
// variables in scope.
//
// Streaming stores need 64-byte alignment that the contract does not promise for arguments. A
// kernel that has some is emitted twice, and the entry picks by the addresses it is called with.
#include "src/build/llvm_module.h"

#include <algorithm>
#include <bit>
#include <functional>

#include "llvm/IR/IntrinsicsX86.h"
#include "llvm/IR/MDBuilder.h"
#include "llvm/TargetParser/Triple.h"
#include "schedules/targets/cpu/cpu_target.h"

namespace lw {
namespace {

// Fields of lw_context, in order.
enum ContextField { kParallelFor, kPool, kWorkers, kWorkspace, kPacked };

bool any_streaming(const Emitter& e, const std::vector<Stmt>& list) {
  return std::any_of(list.begin(), list.end(), [&](const Stmt& s) {
    if (s.kind == Stmt::Kind::kOp) {
      return e.streams(s) && e.kernel.buffers[s.buffer].scope == Scope::kArgument;
    }
    return any_streaming(e, s.body) || any_streaming(e, s.otherwise);
  });
}

void collect_streamed(const Emitter& e, const std::vector<Stmt>& list, std::vector<int>* slots) {
  for (const Stmt& s : list) {
    if (s.kind == Stmt::Kind::kOp) {
      if (e.streams(s) && e.kernel.buffers[s.buffer].scope == Scope::kArgument) {
        slots->push_back(e.kernel.buffers[s.buffer].slot);
      }
      continue;
    }
    collect_streamed(e, s.body, slots);
    collect_streamed(e, s.otherwise, slots);
  }
}

// Whether some operation of a function with this body is as `wanted` says. (Those of parallel loops
// are functions of their own.)
bool any_operation(const std::vector<Stmt>& body, const std::function<bool(const Stmt&)>& wanted) {
  return std::any_of(body.begin(), body.end(), [&](const Stmt& s) {
    if (s.kind == Stmt::Kind::kOp) return wanted(s);
    return !s.parallel && (any_operation(s.body, wanted) || any_operation(s.otherwise, wanted));
  });
}

}  // namespace

Emitter::Emitter(const Kernel& kernel, const Target& target, llvm::Module* module)
    : kernel(kernel), target(target), module(module), b(module->getContext()), ops(&b, target) {
  llvm::FastMathFlags flags;
  flags.setAllowContract(true);
  b.setFastMathFlags(flags);
  llvm::Type* pointer = b.getPtrTy();
  context_type = llvm::StructType::get(pointer, pointer, b.getInt64Ty(), pointer, pointer);
  make_scopes();
}

// Distinct arguments, the workspaces and the packed buffer do not overlap: one alias scope each.
void Emitter::make_scopes() {
  llvm::MDBuilder md(module->getContext());
  llvm::MDNode* domain = md.createAnonymousAliasScopeDomain("kernel");
  std::vector<llvm::Metadata*> all;
  for (int i = 0; i < kernel.arguments + 3; ++i)
    all.push_back(md.createAnonymousAliasScope(domain, "buffer"));
  for (size_t i = 0; i < all.size(); ++i) {
    std::vector<llvm::Metadata*> others = all;
    others.erase(others.begin() + i);
    scopes.push_back({llvm::MDNode::get(module->getContext(), {all[i]}),
                      llvm::MDNode::get(module->getContext(), others)});
  }
  argument_written.assign(kernel.arguments, false);
  for (const Buffer& buffer : kernel.buffers) {
    if (buffer.scope == Scope::kArgument && buffer.written) argument_written[buffer.slot] = true;
  }
}

Frame Emitter::frame_of(const std::vector<Stmt>& body) const {
  Frame made;
  made.vnni = any_operation(body, [&](const Stmt& s) {
    return s.op == Op::kDot && !is_float(kernel.registers[s.dst].type);
  });
  made.fenced = any_operation(body, [](const Stmt& s) { return s.op == Op::kFence; });
  return made;
}

// LLVM 19 makes a sum over the lanes of one vector of products of bytes a VPDPBUSD, and then adds
// up a quarter of its lanes only. So it must not know of that instruction, or, where it has to for
// the sake of dot products, not see what such a sum is of (horizontals).
llvm::Function* Emitter::make_function(llvm::StringRef name, llvm::FunctionType* type,
                                       bool exported, bool vnni) {
  llvm::Function* function = llvm::Function::Create(
      type, exported ? llvm::Function::ExternalLinkage : llvm::Function::InternalLinkage, name,
      module);
  std::string features;
  for (const std::string& feature : target.features) {
    if (!vnni && (feature == "avx512vnni" || feature == "avxvnni")) continue;
    features += (features.empty() ? "+" : ",+") + feature;
  }
  const std::string bits = std::to_string(cpu(target).vector_bytes * 8);
  function->addFnAttr(llvm::Attribute::NoUnwind);
  function->addFnAttr("target-cpu", baseline_cpu(target));
  function->addFnAttr("tune-cpu", cpu(target).cpu);
  function->addFnAttr("target-features", features);
  // Without these, tuning for CPUs that lower their clock for 512-bit vectors halves every vector.
  function->addFnAttr("prefer-vector-width", bits);
  function->addFnAttr("min-legal-vector-width", bits);
  return function;
}

// Starts emitting into `function`, whose context and argument table are these values.
void Emitter::open(Frame* frame, llvm::Function* function, llvm::Value* context, llvm::Value* table,
                   llvm::Value* worker) {
  frame->function = function;
  frame->context = context;
  frame->table = table;
  frame->variables.resize(kernel.variables);
  frame->registers.resize(kernel.registers.size());
  llvm::MDNode* empty = llvm::MDNode::get(module->getContext(), {});
  const auto load = [&](llvm::Type* type, llvm::Value* from, llvm::Type* element, int index) {
    llvm::LoadInst* value = b.CreateLoad(type, b.CreateConstGEP1_64(element, from, index));
    value->setMetadata(llvm::LLVMContext::MD_invariant_load, empty);
    return value;
  };
  llvm::Type* pointer = b.getPtrTy();
  llvm::Value* workspace =
      load(pointer, b.CreateStructGEP(context_type, context, kWorkspace), pointer, 0);
  llvm::Value* packed =
      load(pointer, b.CreateStructGEP(context_type, context, kPacked), pointer, 0);
  llvm::Value* mine =
      b.CreateConstGEP1_64(b.getInt8Ty(), workspace, aligned_bytes(kernel.workspace_bytes));
  mine = b.CreateGEP(b.getInt8Ty(), mine,
                     b.CreateNSWMul(worker, b.getInt64(aligned_bytes(kernel.private_bytes))));
  std::vector<llvm::Value*> slots(kernel.arguments);
  for (int i = 0; i < kernel.arguments; ++i) slots[i] = load(pointer, table, pointer, i);
  for (const Buffer& buffer : kernel.buffers) {
    llvm::Value* base = nullptr;
    switch (buffer.scope) {
      case Scope::kArgument: base = slots[buffer.slot]; break;
      case Scope::kWorkspace: base = workspace; break;
      case Scope::kPrivate: base = mine; break;
      case Scope::kPacked: base = packed; break;
      case Scope::kManaged: break;         // llvm_backend.cc refuses these and blocks
    }
    frame->bases.push_back(buffer.offset == 0 || buffer.scope == Scope::kArgument
                               ? base : b.CreateConstGEP1_64(b.getInt8Ty(), base, buffer.offset));
  }
}

void Emitter::close(Frame* frame) {
  // On x86 streaming stores are weakly ordered: whoever is told that this function returned must
  // see them. Elsewhere (STNP) the release by which one is told orders them as any other store.
  if (frame->streamed && llvm::Triple(cpu(target).triple).isX86()) {
    b.CreateIntrinsic(llvm::Intrinsic::x86_sse_sfence, {}, {});
  }
}

// ------------------------------------------------------------------------------ statements

void Emitter::list(const std::vector<Stmt>& list) {
  for (size_t i = 0; i < list.size(); ++i) {
    const Stmt& s = list[i];
    if (s.kind == Stmt::Kind::kOp && s.op == Op::kHorizontal) {
      i += horizontals(list, i) - 1;
      continue;
    }
    switch (s.kind) {
      case Stmt::Kind::kFor: s.parallel ? parallel_for(s) : serial_for(s); break;
      case Stmt::Kind::kIf: branch(s); break;
      case Stmt::Kind::kInt: integer(s); break;
      case Stmt::Kind::kOp: op(s); break;
      case Stmt::Kind::kBlock: break;
    }
  }
  for (const Stmt& s : list) {  // out of scope: a closure must not capture them
    if (s.kind == Stmt::Kind::kInt) frame->variables[s.var] = nullptr;
  }
}

// Horizontal reductions that follow each other are made together. Returns how many there were.
size_t Emitter::horizontals(const std::vector<Stmt>& list, size_t at) {
  const auto alike = [&](const Stmt& s) {
    if (s.kind != Stmt::Kind::kOp || s.op != Op::kHorizontal) return false;
    const Register &mine = kernel.registers[list[at].srcs[0]], &other = kernel.registers[s.srcs[0]];
    return s.reduce == list[at].reduce && mine.type == other.type && mine.lanes == other.lanes;
  };
  size_t end = at + 1;
  while (end < list.size() && alike(list[end])) ++end;
  const size_t lanes = static_cast<size_t>(kernel.registers[list[at].srcs[0]].lanes);
  for (size_t i = at; i < end;) {
    const size_t some = std::min(std::bit_floor(end - i), std::bit_floor(lanes));
    std::vector<llvm::Value*> vectors;
    for (size_t n = 0; n < some; ++n) vectors.push_back(get(list[i + n].srcs[0]));
    const Type type = kernel.registers[list[i].dst].type;
    if (frame->vnni && some == 1 && type == Type::kI32 && list[i].reduce == Reduce::kSum) {
      vectors[0] = ops.opaque(vectors[0]);
    }
    vectors = ops.horizontal(list[i].reduce, type, std::move(vectors));
    for (size_t n = 0; n < some; ++n) set(list[i + n].dst, vectors[n]);
    i += some;
  }
  return end - at;
}

void Emitter::serial_for(const Stmt& s) {
  if (s.count <= 0) return;
  if (s.count == 1) {
    define(s.var, b.getInt64(0));
    list(s.body);
    frame->variables[s.var] = nullptr;
    return;
  }
  llvm::BasicBlock* before = b.GetInsertBlock();
  llvm::BasicBlock* loop = llvm::BasicBlock::Create(b.getContext(), "for", frame->function);
  b.CreateBr(loop);
  b.SetInsertPoint(loop);
  llvm::PHINode* index = b.CreatePHI(b.getInt64Ty(), 2);
  index->addIncoming(b.getInt64(0), before);
  define(s.var, index);
  list(s.body);
  frame->variables[s.var] = nullptr;
  llvm::Value* next = b.CreateAdd(index, b.getInt64(1), "", true, true);
  index->addIncoming(next, b.GetInsertBlock());
  llvm::BasicBlock* after = llvm::BasicBlock::Create(b.getContext(), "end", frame->function);
  b.CreateCondBr(b.CreateICmpNE(next, b.getInt64(s.count)), loop, after);
  b.SetInsertPoint(after);
}

// How many calls of a parallel body share its iterations: a few for each worker. One for each
// iteration would fence its streaming stores every time, and pay for being called.
llvm::Value* Emitter::chunks_of(const Stmt& s) {
  constexpr int64_t kChunks = 8;           // a worker
  llvm::Value* workers =
      b.CreateLoad(b.getInt64Ty(), b.CreateStructGEP(context_type, frame->context, kWorkers));
  return b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, b.getInt64(s.count),
                                 b.CreateMul(b.CreateBinaryIntrinsic(llvm::Intrinsic::umax, workers,
                                                                     b.getInt64(1)),
                                             b.getInt64(kChunks)));
}

void Emitter::parallel_for(const Stmt& s) {
  llvm::Type* i64 = b.getInt64Ty();
  llvm::Type* pointer = b.getPtrTy();
  std::vector<int> live;
  for (int i = 0; i < kernel.variables; ++i) {
    if (frame->variables[i] != nullptr) live.push_back(i);
  }
  std::vector<llvm::Type*> fields = {pointer, pointer};
  fields.resize(2 + live.size(), i64);
  llvm::StructType* closure_type = llvm::StructType::get(b.getContext(), fields);

  llvm::IRBuilder<> entry(&frame->function->getEntryBlock(),
                          frame->function->getEntryBlock().begin());
  llvm::Value* closure = entry.CreateAlloca(closure_type);
  b.CreateStore(frame->context, b.CreateStructGEP(closure_type, closure, 0));
  b.CreateStore(frame->table, b.CreateStructGEP(closure_type, closure, 1));
  for (size_t i = 0; i < live.size(); ++i) {
    b.CreateStore(frame->variables[live[i]], b.CreateStructGEP(closure_type, closure, 2 + i));
  }
  Frame inner = frame_of(s.body);
  llvm::Function* body = make_function(
      "parallel_body", llvm::FunctionType::get(b.getVoidTy(), {pointer, i64, i64}, false), false,
      inner.vnni);
  call_body(s, body, closure);

  // The body, in a frame of its own.
  const llvm::IRBuilderBase::InsertPoint resume = b.saveIP();
  Frame* outer = frame;
  frame = &inner;
  b.SetInsertPoint(llvm::BasicBlock::Create(b.getContext(), "entry", body));
  llvm::Value* from = body->getArg(0);
  const auto field = [&](int i) {
    return b.CreateLoad(fields[i], b.CreateStructGEP(closure_type, from, i));
  };
  open(&inner, body, field(0), field(1), body->getArg(2));
  for (size_t i = 0; i < live.size(); ++i) define(live[i], field(2 + i));
  // The iterations of this chunk.
  llvm::Value *chunk = body->getArg(1), *chunks = chunks_of(s), *count = b.getInt64(s.count);
  llvm::Value* begin = b.CreateUDiv(b.CreateMul(chunk, count), chunks);
  llvm::Value* end = b.CreateUDiv(b.CreateMul(b.CreateAdd(chunk, b.getInt64(1)), count), chunks);
  llvm::BasicBlock* before = b.GetInsertBlock();
  llvm::BasicBlock* loop = llvm::BasicBlock::Create(b.getContext(), "iteration", body);
  b.CreateBr(loop);
  b.SetInsertPoint(loop);
  llvm::PHINode* index = b.CreatePHI(i64, 2);
  index->addIncoming(begin, before);
  define(s.var, index);
  list(s.body);
  llvm::Value* next = b.CreateAdd(index, b.getInt64(1), "", true, true);
  index->addIncoming(next, b.GetInsertBlock());
  llvm::BasicBlock* after = llvm::BasicBlock::Create(b.getContext(), "end", body);
  b.CreateCondBr(b.CreateICmpULT(next, end), loop, after);
  b.SetInsertPoint(after);
  close(&inner);
  b.CreateRetVoid();
  frame = outer;
  b.restoreIP(resume);
}

// Through the context's parallel_for, or in order where it has none.
void Emitter::call_body(const Stmt& s, llvm::Function* body, llvm::Value* closure) {
  llvm::Type* pointer = b.getPtrTy();
  const auto block = [&](const char* name) {
    return llvm::BasicBlock::Create(b.getContext(), name, frame->function);
  };
  llvm::Value* run =
      b.CreateLoad(pointer, b.CreateStructGEP(context_type, frame->context, kParallelFor));
  llvm::BasicBlock* pooled = block("pooled");
  llvm::BasicBlock* serial = block("serial");
  llvm::BasicBlock* after = block("end");
  llvm::BasicBlock* loop = block("for");
  llvm::Value* chunks = chunks_of(s);
  b.CreateCondBr(b.CreateIsNull(run), serial, pooled);

  b.SetInsertPoint(pooled);
  llvm::Value* pool = b.CreateLoad(pointer, b.CreateStructGEP(context_type, frame->context, kPool));
  llvm::FunctionType* type = llvm::FunctionType::get(
      b.getVoidTy(), {pointer, b.getInt64Ty(), pointer, pointer}, false);
  b.CreateCall(type, run, {pool, chunks, body, closure});
  b.CreateBr(after);

  b.SetInsertPoint(serial);
  b.CreateBr(loop);
  b.SetInsertPoint(loop);
  llvm::PHINode* index = b.CreatePHI(b.getInt64Ty(), 2);
  index->addIncoming(b.getInt64(0), serial);
  b.CreateCall(body, {closure, index, b.getInt64(0)});
  llvm::Value* next = b.CreateAdd(index, b.getInt64(1), "", true, true);
  index->addIncoming(next, loop);
  b.CreateCondBr(b.CreateICmpULT(next, chunks), loop, after);
  b.SetInsertPoint(after);
}

void Emitter::branch(const Stmt& s) {
  llvm::Value* condition = b.getTrue();
  for (const Affine& a : s.conditions) {
    condition = b.CreateAnd(condition, b.CreateICmpSGE(address(a), b.getInt64(0)));
  }
  llvm::BasicBlock* yes = llvm::BasicBlock::Create(b.getContext(), "then", frame->function);
  llvm::BasicBlock* no = llvm::BasicBlock::Create(b.getContext(), "else", frame->function);
  llvm::BasicBlock* after = llvm::BasicBlock::Create(b.getContext(), "end", frame->function);
  b.CreateCondBr(condition, yes, no);
  b.SetInsertPoint(yes);
  list(s.body);
  b.CreateBr(after);
  b.SetInsertPoint(no);
  list(s.otherwise);
  b.CreateBr(after);
  b.SetInsertPoint(after);
}

void Emitter::integer(const Stmt& s) {
  llvm::Value* value = nullptr;
  switch (s.int_op) {
    case Stmt::IntOp::kAffine:
      value = address(s.a);
      break;
    case Stmt::IntOp::kDiv: case Stmt::IntOp::kMod: {
      const bool power = (s.divisor & (s.divisor - 1)) == 0;
      llvm::Value* a = address(s.a);
      llvm::Value* divisor = b.getInt64(s.divisor);
      if (power) {
        value = s.int_op == Stmt::IntOp::kDiv ? b.CreateAShr(a, __builtin_ctzll(s.divisor))
                                              : b.CreateAnd(a, b.getInt64(s.divisor - 1));
        break;
      }
      llvm::Value* quotient = b.CreateSDiv(a, divisor);
      llvm::Value* rest = b.CreateSub(a, b.CreateMul(quotient, divisor));
      llvm::Value* sign = b.CreateAShr(rest, 63);  // -1 where the division rounded up
      value = s.int_op == Stmt::IntOp::kDiv ? b.CreateAdd(quotient, sign)
                                            : b.CreateAdd(rest, b.CreateAnd(sign, divisor));
      break;
    }
    case Stmt::IntOp::kMin:
      value = b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, address(s.a), address(s.b));
      break;
    case Stmt::IntOp::kMax:
      value = b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, address(s.a), address(s.b));
      break;
    case Stmt::IntOp::kRegister:
      value = ops.cast(Type::kI64, kernel.registers[s.srcs[0]].type, get(s.srcs[0]));
      break;
    case Stmt::IntOp::kItem: value = b.getInt64(0); break;  // of groups of one
  }
  define(s.var, value);
}

// ------------------------------------------------------------------------------ entries

llvm::Function* Emitter::function(const std::string& name, const std::vector<Stmt>& body,
                                  bool exported) {
  llvm::FunctionType* type =
      llvm::FunctionType::get(b.getInt32Ty(), {b.getPtrTy(), b.getPtrTy()}, false);
  Frame top = frame_of(body);
  llvm::Function* function = make_function(name, type, exported, top.vnni);
  frame = &top;
  b.SetInsertPoint(llvm::BasicBlock::Create(b.getContext(), "entry", function));
  open(&top, function, function->getArg(0), function->getArg(1), b.getInt64(0));
  list(body);
  close(&top);
  b.CreateRet(b.getInt32(0));
  frame = nullptr;
  return function;
}

void Emitter::entry(const std::string& name, const std::vector<Stmt>& body) {
  if (!any_streaming(*this, body)) {
    function(name, body, true);
    return;
  }
  std::vector<int> slots;
  collect_streamed(*this, body, &slots);
  std::sort(slots.begin(), slots.end());
  slots.erase(std::unique(slots.begin(), slots.end()), slots.end());
  aligned_slots = slots;
  llvm::Function* streaming = function(name + ".streaming", body, false);
  aligned_slots.clear();
  llvm::Function* plain = function(name + ".plain", body, false);

  llvm::Function* choose = make_function(name, plain->getFunctionType(), true, false);
  llvm::Value* context = choose->getArg(0);
  llvm::Value* table = choose->getArg(1);
  b.SetInsertPoint(llvm::BasicBlock::Create(b.getContext(), "entry", choose));
  llvm::Value* bits = b.getInt64(0);
  for (int i : slots) {
    llvm::Value* place = b.CreateLoad(b.getPtrTy(), b.CreateConstGEP1_64(b.getPtrTy(), table, i));
    bits = b.CreateOr(bits, b.CreatePtrToInt(place, b.getInt64Ty()));
  }
  llvm::BasicBlock* yes = llvm::BasicBlock::Create(b.getContext(), "aligned", choose);
  llvm::BasicBlock* no = llvm::BasicBlock::Create(b.getContext(), "unaligned", choose);
  b.CreateCondBr(b.CreateICmpEQ(b.CreateAnd(bits, b.getInt64(63)), b.getInt64(0)), yes, no);
  b.SetInsertPoint(yes);
  b.CreateRet(b.CreateCall(streaming, {context, table}));
  b.SetInsertPoint(no);
  b.CreateRet(b.CreateCall(plain, {context, table}));
}

std::unique_ptr<llvm::Module> emit_module(const Kernel& kernel, const Target& target,
                                          llvm::LLVMContext* context) {
  std::unique_ptr<llvm::Module> module = std::make_unique<llvm::Module>(kernel.name, *context);
  module->setTargetTriple(cpu(target).triple);
  Emitter emitter(kernel, target, module.get());
  emitter.entry(kernel.name, kernel.body);
  if (kernel.packed_bytes > 0) {
    emitter.in_prepack = true;
    emitter.entry(kernel.name + "_prepack", kernel.prepack);
  }
  return module;
}

}  // namespace lw
