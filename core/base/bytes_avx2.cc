// The loops over bytes by AVX2, for processors that have it. Compiled apart, as no other code may
// use these instructions.
#define RONDE_BYTES_ISA bytes_avx2
#include "core/base/bytes_inl.h"

namespace ronde {

extern const ByteLoops kLoopsAvx2;
const ByteLoops kLoopsAvx2 = bytes_avx2::kLoops;

}  // namespace ronde
