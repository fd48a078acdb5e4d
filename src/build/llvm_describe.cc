// The table in which a kernel describes itself: lw_kernel (loopwright/context.h) as constants of the
// kernel's own module, so that one object has all that a loader must know.
#include "absl/strings/str_join.h"
#include "llvm/IR/Constants.h"
#include "src/build/llvm_emit.h"

namespace lw {
namespace {

class Table {
 public:
  Table(llvm::Module* module) : module_(*module), b_(module->getContext()) {}

  llvm::Constant* text(const std::string& value) {
    return hidden(llvm::ConstantDataArray::getString(module_.getContext(), value));
  }
  llvm::Constant* integers(const std::vector<int64_t>& values) {
    return hidden(llvm::ConstantDataArray::get(module_.getContext(), values));
  }
  llvm::Constant* number(int64_t value) { return b_.getInt64(static_cast<uint64_t>(value)); }
  llvm::Constant* small(int64_t value) { return b_.getInt32(static_cast<uint32_t>(value)); }
  llvm::Constant* function(const std::string& name) {
    llvm::Function* found = module_.getFunction(name);
    return found != nullptr ? static_cast<llvm::Constant*>(found)
                            : llvm::ConstantPointerNull::get(b_.getPtrTy());
  }
  // Laid out as C does: every field is aligned to its size already.
  static llvm::Constant* record(llvm::ArrayRef<llvm::Constant*> fields) {
    return llvm::ConstantStruct::getAnon(fields);
  }
  llvm::Constant* list(const std::vector<llvm::Constant*>& records) {
    if (records.empty()) return llvm::ConstantPointerNull::get(b_.getPtrTy());
    auto* type = llvm::ArrayType::get(records.front()->getType(), records.size());
    return hidden(llvm::ConstantArray::get(type, records));
  }
  void publish(const std::string& name, llvm::Constant* value) {
    new llvm::GlobalVariable(module_, value->getType(), /*isConstant=*/true,
                             llvm::GlobalValue::ExternalLinkage, value, name);
  }

 private:
  llvm::Constant* hidden(llvm::Constant* value) {
    return new llvm::GlobalVariable(module_, value->getType(), /*isConstant=*/true,
                                    llvm::GlobalValue::PrivateLinkage, value, "facts");
  }

  llvm::Module& module_;
  llvm::IRBuilder<> b_;
};

}  // namespace

void describe(const Kernel& kernel, const Target& target, const KernelFacts& facts,
              llvm::Module* module) {
  Table table(module);
  std::vector<llvm::Constant*> arguments;
  for (const KernelFacts::Argument& one : facts.arguments) {
    arguments.push_back(Table::record({table.text(one.name), table.text(one.type),
                                       table.integers(one.shape),
                                       table.small(static_cast<int64_t>(one.shape.size())),
                                       table.small(one.flags), table.number(one.bytes),
                                       table.number(one.alignment)}));
  }
  table.publish(
      kernel.name + "_kernel",
      Table::record({table.small(LOOPWRIGHT_ABI),
                     table.small(static_cast<int64_t>(facts.arguments.size())),
                     table.list(arguments), table.text(kernel.name), table.function(kernel.name),
                     table.function(kernel.name + "_prepack"), table.number(kernel.workspace_bytes),
                     table.number(kernel.private_bytes), table.number(kernel.packed_bytes),
                     table.number(facts.threads), table.text(absl::StrJoin(target.features, " ")),
                     table.text(facts.digest), table.text(facts.json)}));
}

}  // namespace lw
