// Out-of-line members of the public interfaces: their type information lives here alone.
#include <llminfer/sampling.hpp>

namespace llminfer {
inline namespace v0 {

Sampler::~Sampler() = default;
void Sampler::accept(Token) {}
void Sampler::rollback(int) {}

MaskSource::~MaskSource() = default;
bool MaskSource::complete() const { return false; }

}  // namespace v0
}  // namespace llminfer
