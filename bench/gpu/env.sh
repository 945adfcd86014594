# Sets PINCH_PJRT_PLUGIN and LD_LIBRARY_PATH to the CUDA plugin and libraries that pip installed with JAX. Source it: . bench/gpu/env.sh
site=$(python3 -c 'import os, jax; print(os.path.dirname(os.path.dirname(jax.__file__)))')
for p in "$site"/jax_plugins/xla_cuda13/xla_cuda_plugin.so "$site"/jax_plugins/xla_cuda12/xla_cuda_plugin.so; do
	[ -e "$p" ] && export PINCH_PJRT_PLUGIN="$p" && break
done
for d in "$site"/nvidia/*/lib; do
	LD_LIBRARY_PATH=$d:${LD_LIBRARY_PATH:-}
done
export LD_LIBRARY_PATH
