/* That the header is C, and its structs have no padding that a C compiler would put elsewhere. */
#include "bindings/c/ronde_c.h"

size_t submission_bytes_in_c(void);
size_t submission_bytes_in_c(void) { return sizeof(ronde_submission); }
