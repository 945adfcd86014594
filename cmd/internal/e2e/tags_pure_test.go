//go:build !(opencv && mujoco && blas && libav)

package e2e

// Without all native libraries the helpers are their pure twins.
const rigTags, simTags, nodeTags = "", "", ""
