// Where this build has what tests read and run. One small file knows it; so all others are the same
// in each clone, and a cache of objects serves them all.
#pragma once

namespace heddle::test {

extern const char* const source_root;      ///< of the project
extern const char* const cuda_standin;     ///< a library in the place of a GPU's driver
extern const char* const nvrtc_standin;    ///< a library in the place of NVRTC
extern const char* const standin_kernels;  ///< an image of kernels for cuda_standin
extern const char* const heddle_program;   ///< empty where the build leaves the tools out

}  // namespace heddle::test
