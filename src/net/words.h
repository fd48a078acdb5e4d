// What two programs of different versions must both know to work together, as words: an agent says
// those of its program with its devices (Device.words), and a server looks at them before it gives
// a device work, so that nobody is blamed for what one of them has not learned yet.
//
//   step split@2     the agent replays traces with this kind of step, of this version
//   job compare      it does jobs of this kind
//   verdict crash    it may report this outcome of a candidate
//
// Words with another beginning are of a later version's concern and mean nothing here. Pure
// functions; thread-safe.
#pragma once

#include <string>
#include <vector>

namespace lw {

// Of this program, sorted.
const std::vector<std::string>& known_words();

// Why a server that knows `servers` gives no work to an agent that knows `agents`, and which of
// them is to be updated; "": nothing keeps it from that. An agent that says nothing is a program of
// before these words.
std::string misfit(std::vector<std::string> agents,
                   const std::vector<std::string>& servers = known_words());

}  // namespace lw
