// Where mathematics stands. Inline, its constants stay in registers and it overlaps with what is
// around it. A kernel of hundreds of such operations takes LLVM seconds that way (200 powers 3.3 s,
// of calls 0.4 s, and 0 to 4 % of the kernel's time): after the first thousands of instructions
// each operation is a call of a function of the kernel's own module.
#include "llvm/IR/Module.h"
#include "schedules/targets/cpu/cpu_target.h"
#include "src/base/message.h"
#include "src/build/llvm_emit.h"

namespace lw {
namespace {

constexpr int kInlined = 10000;            // instructions

// About, of f32 on AVX-512; f64 takes about twice that a vector.
int instructions(ExprOp op, llvm::Type* type, const Target& target) {
  const int twice = type->getScalarType()->isDoubleTy() ? 2 : 1;
  const int bytes = lanes_of(type) * 4 * twice, width = cpu(target).vector_bytes;
  const int vectors = (bytes + width - 1) / width;
  switch (op) {
    case ExprOp::kPow: return 150 * vectors;
    case ExprOp::kErf:
    case ExprOp::kTanh: return 30 * twice * vectors;
    default: return 20 * twice * vectors;
  }
}

std::string name_of(ExprOp op, llvm::Type* type) {
  const char* element = type->getScalarType()->isDoubleTy() ? "f64" : "f32";
  return concat("math.", op_name(op), ".", lanes_of(type), "x", element);
}

// Made when it is first called, with the attributes of its first caller: the kernel's.
llvm::Function* function_of(ExprOp op, Ops* ops, llvm::Type* type, bool binary) {
  llvm::IRBuilder<>& builder = ops->builder();
  const llvm::Function* caller = builder.GetInsertBlock()->getParent();
  llvm::Module* module = builder.GetInsertBlock()->getModule();
  const std::string name = name_of(op, type);
  if (llvm::Function* known = module->getFunction(name)) return known;
  const std::vector<llvm::Type*> arguments(binary ? 2 : 1, type);
  llvm::Function* function =
      llvm::Function::Create(llvm::FunctionType::get(type, arguments, false),
                             llvm::Function::InternalLinkage, name, module);
  function->setCallingConv(llvm::CallingConv::Fast);
  function->addFnAttrs(
      llvm::AttrBuilder(module->getContext(), caller->getAttributes().getFnAttrs()));
  function->addFnAttr(llvm::Attribute::NoInline);
  const llvm::IRBuilderBase::InsertPointGuard guard(builder);
  builder.SetInsertPoint(llvm::BasicBlock::Create(module->getContext(), "", function));
  llvm::Value* exponent = binary ? function->getArg(1) : nullptr;
  builder.CreateRet(inline_math(op, ops, function->getArg(0), exponent));
  return function;
}

}  // namespace

llvm::Value* emit_math(ExprOp op, Ops* ops, llvm::Value* a, llvm::Value* b) {
  if (ops->count_math(instructions(op, a->getType(), ops->target())) < kInlined)
    return inline_math(op, ops, a, b);
  llvm::Function* function = function_of(op, ops, a->getType(), b != nullptr);
  std::vector<llvm::Value*> arguments = {a};
  if (b != nullptr) arguments.push_back(b);
  llvm::CallInst* call = ops->builder().CreateCall(function, arguments);
  call->setCallingConv(llvm::CallingConv::Fast);
  return call;
}

}  // namespace lw
