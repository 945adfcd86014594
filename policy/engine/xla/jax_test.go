//go:build xla && cgo

package xla_test

import (
	"encoding/binary"
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/pinch-robotics/pinch/internal/testpeer"
	"github.com/pinch-robotics/pinch/policy/engine/xla"
	"github.com/pinch-robotics/pinch/policy/op"
)

// TestJAX holds that the text that we write gives the same loss and gradients through JAX's XLA as through ours, and the same as the network
// written in JAX with its automatic differentiation: 1e-5 in float32 and 1e-2 in mixed precision, relative to the norm of each result. The
// network in JAX rounds to bfloat16 at other places than ours, each within 1e-2 of the unrounded result, hence twice that between the two.
func TestJAX(t *testing.T) {
	python := testpeer.Python(t, "jax")
	for _, mode := range []struct {
		precision xla.Precision
		same      float64 // the same text on two builds of XLA
		network   float64 // the network of JAX
	}{{xla.Full, 1e-5, 1e-5}, {xla.BFloat16, 1e-2, 2e-2}} {
		t.Run(string(mode.precision), func(t *testing.T) {
			n := newNetwork(t, 3)
			dir := t.TempDir()
			n.write(t, dir, mode.precision)
			cmd := exec.Command(python, filepath.Join("testdata", "jax_peer.py"), dir, string(mode.precision))
			cmd.Env = append(os.Environ(), "JAX_PLATFORMS=cpu")
			cmd.Stderr = os.Stderr
			out, err := cmd.Output()
			if err != nil {
				t.Fatal(err)
			}
			var got struct{ Module, Network map[string]float64 }
			if err := json.Unmarshal(out, &got); err != nil {
				t.Fatalf("%v in %s", err, out)
			}
			if len(got.Module) != len(n.params)+1 || len(got.Network) != len(n.params)+1 {
				t.Fatalf("%d and %d results compared, want %d", len(got.Module), len(got.Network), len(n.params)+1)
			}
			for name, d := range got.Module {
				if !(d <= mode.same) {
					t.Errorf("%s: JAX's XLA is %.2g from ours, want %v", name, d, mode.same)
				}
			}
			for name, d := range got.Network {
				if !(d <= mode.network) {
					t.Errorf("%s: the network in JAX is %.2g from ours, want %v", name, d, mode.network)
				}
			}
		})
	}
}

// write runs the network's loss and gradients and writes module, arguments and results for the peer.
func (n *network) write(t *testing.T, dir string, precision xla.Precision) {
	t.Helper()
	outputs := n.outputs()
	m, err := xla.Emit(outputs, xla.Options{Precision: precision})
	if err != nil {
		t.Fatal(err)
	}
	p, err := client(t).Compile(outputs, xla.Options{Precision: precision})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Close() }()
	names := map[string][][3]any{}
	var arguments, results []byte
	rng := rand.New(rand.NewPCG(11, 12))
	for _, a := range m.Arguments {
		v := draw(a.Node, rng)
		if err := p.Set(a.Node, v); err != nil {
			t.Fatal(err)
		}
		kind := "float32"
		switch a.DType {
		case op.Int32:
			kind = "int32"
		case op.Bool:
			kind = "bool"
		}
		names["arguments"] = append(names["arguments"], [3]any{a.Name, a.Shape, kind})
		if arguments, err = binary.Append(arguments, binary.LittleEndian, v); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Run(); err != nil {
		t.Fatal(err)
	}
	for i, o := range outputs {
		v, err := p.Read(o)
		if err != nil {
			t.Fatal(err)
		}
		entry := [3]any{"loss", []int{}, "float32"}
		if i > 0 {
			entry = [3]any{n.params[i-1].Name(), []int(n.params[i-1].Shape()), "float32"}
		}
		names["results"] = append(names["results"], entry)
		if results, err = binary.Append(results, binary.LittleEndian, v); err != nil {
			t.Fatal(err)
		}
	}
	text, err := json.Marshal(names)
	if err != nil {
		t.Fatal(err)
	}
	for file, data := range map[string][]byte{"module.mlir": []byte(m.Text), "names.json": text, "arguments.bin": arguments, "results.bin": results} {
		if err := os.WriteFile(filepath.Join(dir, file), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
