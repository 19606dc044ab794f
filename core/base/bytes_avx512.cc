// The loops over bytes by AVX-512, for processors that have it. Compiled apart, as no other code
// may use these instructions.
#define RONDE_BYTES_ISA bytes_avx512
#include "core/base/bytes_inl.h"

namespace ronde {

extern const ByteLoops kLoopsAvx512;
const ByteLoops kLoopsAvx512 = bytes_avx512::kLoops;

}  // namespace ronde
