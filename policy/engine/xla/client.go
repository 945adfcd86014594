//go:build xla && cgo

package xla

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"unsafe"

	"github.com/gomlx/go-xla/pkg/pjrt"
	"github.com/gomlx/go-xla/pkg/types/dtypes"
	"github.com/pinch-robotics/pinch/policy/op"
	"gorgonia.org/tensor"
)

// Client is a set of devices of one platform. It is safe for concurrent use; the programs that it compiles are not.
type Client struct {
	platform Platform
	client   *pjrt.Client
}

// opening guards the environment, which plugins read when they are loaded and when they make a client.
var opening sync.Mutex

// Open loads a PJRT plugin and takes its devices.
func Open(o OpenOptions) (*Client, error) {
	if o.Platform == "" {
		o.Platform = CUDA
	}
	path, err := o.pluginPath()
	if err != nil {
		return nil, err
	}
	opening.Lock()
	defer opening.Unlock()
	o.setEnvironment(path)
	plugin, err := pjrt.GetPlugin(path)
	if err != nil {
		return nil, fmt.Errorf("open PJRT plugin %s: %w", path, err)
	}
	values := pjrt.NamedValuesMap{}
	if o.Platform == CPU {
		values["cpu_device_count"] = int64(max(o.Devices, 1))
	}
	if o.Platform == CUDA && o.Preallocate > 0 {
		values["memory_fraction"] = float32(o.Preallocate)
	}
	client, err := plugin.NewClient(values)
	if err != nil {
		return nil, fmt.Errorf("open devices of PJRT plugin %s: %w", path, err)
	}
	return &Client{o.Platform, client}, nil
}

// setEnvironment sets what plugins read from the environment. XLA_FLAGS is read once, when the plugin first parses a program.
func (o OpenOptions) setEnvironment(plugin string) {
	_ = os.Setenv("GOPJRT_CUDA_CHECKS", "0") // go-xla would point XLA_FLAGS at a folder of its author's machine
	flags := strings.Fields(os.Getenv("XLA_FLAGS"))
	add := func(name, value string) {
		for _, f := range flags {
			if f == name || strings.HasPrefix(f, name+"=") {
				return // what the user set stays
			}
		}
		flags = append(flags, name+"="+value)
	}
	switch o.Platform {
	case CUDA:
		for _, nvidia := range []string{"../../nvidia/cu13", "../../nvidia/cuda_nvcc"} { // libdevice and ptxas of pip's packages
			if dir := filepath.Join(filepath.Dir(plugin), nvidia); isDir(dir) {
				add("--xla_gpu_cuda_data_dir", dir)
			}
		}
		if o.Deterministic {
			add("--xla_gpu_deterministic_ops", "true")
		}
		if o.Devices > 1 {
			// The gradients' sums over the devices run while the backward pass goes on, a few large messages instead of one per parameter.
			add("--xla_gpu_enable_latency_hiding_scheduler", "true")
			add("--xla_gpu_all_reduce_combine_threshold_bytes", fmt.Sprint(combineBytes))
		}
	}
	_ = os.Setenv("XLA_FLAGS", strings.Join(flags, " ")) // names without NUL or "=" can not fail
}

// combineBytes is the size to which sums over the devices are joined: 128 MiB keep NVLink busy and leave several messages per step.
const combineBytes = 128 << 20

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// Devices is the number of devices.
func (c *Client) Devices() int { return c.client.NumDevices() }

// Platform tells what kind of devices they are.
func (c *Client) Platform() Platform { return c.platform }

// Close gives the devices back. Programs of the client must not be used any more.
func (c *Client) Close() error {
	if err := c.client.Destroy(); err != nil {
		return fmt.Errorf("close PJRT client: %w", err)
	}
	return nil
}

// fill makes options fit the client.
func (c *Client) fill(o Options) (Options, error) {
	o, err := o.fill()
	if err != nil {
		return o, err
	}
	o.CuDNN = o.CuDNN || c.platform == CUDA && os.Getenv("PINCH_NO_CUDNN") == ""
	o.WeakBarriers = c.platform == CPU
	if o.Devices > c.Devices() {
		return o, fmt.Errorf("%d devices asked for, the platform %s has %d", o.Devices, c.platform, c.Devices())
	}
	return o, nil
}

func (c *Client) compile(m *Module) (*pjrt.LoadedExecutable, MemoryStats, error) {
	cc := c.client.Compile().WithStableHLO([]byte(m.Text))
	if m.Options.Devices > 1 {
		cc = cc.WithShardy(m.Options.Devices)
	}
	exec, err := cc.Done()
	if err != nil {
		return nil, MemoryStats{}, fmt.Errorf("compile for %s: %w", c.platform, err)
	}
	s := exec.OnDeviceMemoryUsageStats
	return exec, MemoryStats{Arguments: s.Inputs, Results: s.Outputs, Aliased: s.Aliases, Temporary: s.Temporary, Code: s.GeneratedCode}, nil
}

var dtypeNames = map[tensor.Dtype]dtypes.DType{op.Float32: dtypes.Float32, op.Float64: dtypes.Float64, op.Int32: dtypes.Int32, op.Bool: dtypes.Bool}

// upload puts an input's elements on the devices: a part on each, or the whole on each.
func (c *Client) upload(a Argument, data any, devices int) ([]*pjrt.Buffer, error) {
	raw, err := bytesOf(a, data)
	if err != nil {
		return nil, err
	}
	shape := append([]int(nil), a.Shape...)
	part := len(raw)
	if a.Cut {
		shape[0] /= devices
		part /= devices
	}
	buffers := make([]*pjrt.Buffer, devices)
	for d := range buffers {
		from := 0
		if a.Cut {
			from = d * part
		}
		buffers[d], err = c.client.BufferFromHost().FromRawData(raw[from:from+part], dtypeNames[a.DType], shape).ToDeviceNum(d).Done()
		if err != nil {
			return nil, errors.Join(fmt.Errorf("copy %q to device %d: %w", a.Name, d, err), destroy(buffers[:d]))
		}
	}
	return buffers, nil
}

// bytesOf checks the data of an input and gives its memory.
func bytesOf(a Argument, data any) ([]byte, error) {
	wrong := func(n int, dt tensor.Dtype) error {
		if dt != a.DType {
			return fmt.Errorf("element type %v given, want %v", dt, a.DType)
		}
		if n != a.Len() {
			return fmt.Errorf("%d elements given, want %d of shape %v", n, a.Len(), a.Shape)
		}
		return nil
	}
	switch d := data.(type) {
	case []float32:
		return raw(d), wrong(len(d), op.Float32)
	case []float64:
		return raw(d), wrong(len(d), op.Float64)
	case []int32:
		if err := wrong(len(d), op.Int32); err != nil {
			return nil, err
		}
		for i, id := range d {
			if a.Below > 0 && (id < 0 || int(id) >= a.Below) {
				return nil, fmt.Errorf("id %d at element %d is outside the table's [0, %d)", id, i, a.Below)
			}
		}
		return raw(d), nil
	case []bool:
		return raw(d), wrong(len(d), op.Bool)
	case float32:
		return raw([]float32{d}), wrong(1, op.Float32)
	case float64:
		return raw([]float64{d}), wrong(1, op.Float64)
	}
	return nil, fmt.Errorf("data of type %T given, want a slice of %v", data, a.DType)
}

func raw[T any](d []T) []byte {
	var zero T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(d))), len(d)*int(unsafe.Sizeof(zero)))
}

// destroy gives buffers back.
func destroy(buffers []*pjrt.Buffer) error {
	var first error
	for _, b := range buffers {
		if b == nil {
			continue
		}
		if err := b.Destroy(); err != nil && first == nil {
			first = fmt.Errorf("give device memory back: %w", err)
		}
	}
	return first
}
