// Finds the peers that are installed, and gives their ways to compute a case as contenders.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "src/peers/peer.h"

namespace lw {

struct PeerLibraries {
  std::vector<Peer*> peers;                // live until the process ends
  std::vector<std::string> missing;        // "onednn: libdnnl.so.3: cannot open ..."
};

// Loads lw_peer_*.so from $LOOPWRIGHT_PEERS, else from `peers/` beside the running program, else
// from ../lib/loopwright/peers; once. Call it before starting threads: libraries read the
// environment.
const PeerLibraries& load_peers();

// One library's way to compute a case, ready to run.
struct PeerContender {
  std::string name, version, mode, implementation;
  std::function<void()> select;            // call before a series of runs: sets thread counts
  std::function<void()> run;
};

// Every way of every peer, each run once; threads that the libraries started are pinned to cpus[1],
// cpus[2], ... in turn, as ours are (the caller is cpus[0]'s). `arguments` outlive the contenders.
std::vector<PeerContender> prepare_peers(const PeerCase& description, void* const* arguments,
                                         int threads, const std::vector<int>& cpus);

}  // namespace lw
