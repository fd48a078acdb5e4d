// From an LLVM module to an object. The kernel arrives in shape, so the pipeline on IR is short:
// mem2reg makes the registers values, EarlyCSE shares the addresses, and chains of elementary
// functions are woven (llvm_interleave.cc); loop strength reduction and the rest belong to code
// generation. A GEMM kernel with an 8 x 48 tile takes about 10 ms in all.
//
// A TargetMachine costs about a millisecond to make, so each thread keeps one a target.
#include <algorithm>
#include <map>

#include "llvm/ADT/StringRef.h"
#include "llvm/Analysis/AliasAnalysis.h"
#include "llvm/Analysis/CGSCCPassManager.h"
#include "llvm/Analysis/LoopAnalysisManager.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Verifier.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Triple.h"
#include "llvm/Transforms/Scalar/DCE.h"
#include "llvm/Transforms/Scalar/EarlyCSE.h"
#include "llvm/Transforms/Utils/Mem2Reg.h"
#include "schedules/targets/cpu/cpu_target.h"
#include "src/base/check.h"
#include "src/build/llvm_emit.h"

namespace lw {
namespace {

// LLVM would print a warning and go on with another CPU.
absl::Status check_known(const Target& target, const llvm::MCSubtargetInfo& known) {
  if (!known.isCPUStringValid(cpu(target).cpu)) {
    return absl::InvalidArgumentError("LLVM knows no CPU '" + cpu(target).cpu + "'");
  }
  for (const std::string& feature : target.features) {
    const auto same = [&](const llvm::SubtargetFeatureKV& f) { return feature == f.Key; };
    if (std::none_of(known.getAllProcessorFeatures().begin(), known.getAllProcessorFeatures().end(),
                     same)) {
      return absl::InvalidArgumentError("LLVM knows no feature '" + feature + "'");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<llvm::TargetMachine*> target_machine(const Target& target) {
  static const bool initialized = [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    LLVMInitializeX86AsmParser();          // for what is asked for by name (Ops::slide)
    LLVMInitializeAArch64TargetInfo();
    LLVMInitializeAArch64Target();
    LLVMInitializeAArch64TargetMC();
    LLVMInitializeAArch64AsmPrinter();
    return true;
  }();
  (void)initialized;
  thread_local std::map<std::string, std::unique_ptr<llvm::TargetMachine>> machines;
  std::unique_ptr<llvm::TargetMachine>& machine = machines[cpu(target).triple];
  if (machine == nullptr) {
    std::string error;
    const llvm::Target* found = llvm::TargetRegistry::lookupTarget(cpu(target).triple, error);
    if (found == nullptr) return absl::InvalidArgumentError("target " + target.name + ": " + error);
    // CPU and features stand on the functions; the machine keeps a subtarget for each set of them.
    machine.reset(found->createTargetMachine(
        cpu(target).triple, baseline_cpu(target), "", llvm::TargetOptions(), llvm::Reloc::PIC_,
        llvm::CodeModel::Small, llvm::CodeGenOptLevel::Default));
  }
  RETURN_IF_ERROR(check_known(target, *machine->getMCSubtargetInfo()));
  return machine.get();
}

}  // namespace

std::string_view baseline_cpu(const Target& target) {
  return llvm::Triple(cpu(target).triple).isX86() ? "x86-64" : "generic";
}

absl::Status optimize(llvm::Module* module, const Target& target) {
  absl::StatusOr<llvm::TargetMachine*> machine = target_machine(target);
  if (!machine.ok()) return machine.status();
  module->setDataLayout((*machine)->createDataLayout());
  std::string problem;
  llvm::raw_string_ostream stream(problem);
  if (llvm::verifyModule(*module, &stream)) {
    return absl::InternalError("kernel " + module->getName().str() + ": bad LLVM IR: " + problem);
  }
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager cgscc;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(*machine);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(cgscc);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, cgscc, modules);
  llvm::FunctionPassManager passes;
  passes.addPass(llvm::PromotePass());
  passes.addPass(llvm::EarlyCSEPass(true));
  passes.addPass(llvm::DCEPass());
  for (llvm::Function& function : *module) {
    if (function.isDeclaration()) continue;
    passes.run(function, functions);
    interleave(function, functions.getResult<llvm::AAManager>(function),
               cpu(target).vector_registers);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> emit_code(llvm::Module* module, const Target& target, bool assembly) {
  absl::StatusOr<llvm::TargetMachine*> machine = target_machine(target);
  if (!machine.ok()) return machine.status();
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  llvm::legacy::PassManager passes;
  if ((*machine)->addPassesToEmitFile(
          passes, stream, nullptr,
          assembly ? llvm::CodeGenFileType::AssemblyFile : llvm::CodeGenFileType::ObjectFile,
          /*DisableVerify=*/true)) {
    return absl::InternalError("LLVM cannot emit code for " + cpu(target).triple);
  }
  passes.run(*module);
  return std::string(bytes.data(), bytes.size());
}

}  // namespace lw
