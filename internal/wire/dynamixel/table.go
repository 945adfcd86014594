package dynamixel

import (
	"encoding/binary"
	"math"
)

// Register is one entry of the X series control table: address and size in bytes.
type Register struct {
	Name string
	Addr uint16
	Size uint16
}

// Registers that the gripper uses. Source: e-manual, XM430-W350 control table.
var (
	ModelNumber     = Register{"model number", 0, 2}
	FirmwareVersion = Register{"firmware version", 6, 1}
	ReturnDelay     = Register{"return delay time", 9, 1} // 2 µs
	OperatingMode   = Register{"operating mode", 11, 1}
	TemperatureMax  = Register{"temperature limit", 31, 1} // °C
	CurrentLimit    = Register{"current limit", 38, 2}     // 2.69 mA
	MaxPosition     = Register{"max position limit", 48, 4}
	MinPosition     = Register{"min position limit", 52, 4}
	TorqueEnable    = Register{"torque enable", 64, 1}
	HardwareError   = Register{"hardware error status", 70, 1}
	BusWatchdog     = Register{"bus watchdog", 98, 1} // 20 ms; -1: tripped
	GoalCurrent     = Register{"goal current", 102, 2}
	GoalVelocity    = Register{"goal velocity", 104, 4}
	ProfileAccel    = Register{"profile acceleration", 108, 4}
	ProfileVelocity = Register{"profile velocity", 112, 4}
	GoalPosition    = Register{"goal position", 116, 4}
	Moving          = Register{"moving", 122, 1}
	PresentCurrent  = Register{"present current", 126, 2}
	PresentVelocity = Register{"present velocity", 128, 4} // 0.229 rpm
	PresentPosition = Register{"present position", 132, 4} // 4096 counts a turn
	PresentVoltage  = Register{"present input voltage", 144, 2}
	PresentTemp     = Register{"present temperature", 146, 1} // °C
)

// Values of OperatingMode.
const (
	ModeCurrent          = 0
	ModeVelocity         = 1
	ModePosition         = 3
	ModeExtendedPosition = 4
	ModeCurrentPosition  = 5
	ModePWM              = 16
)

// Units of the X series.
const (
	RadPerCount      = 2 * math.Pi / 4096
	AmperePerCount   = 2.69e-3
	RadPerSPerCount  = 0.229 * 2 * math.Pi / 60
	WatchdogUnitMS   = 20
	MaxWatchdogUnits = 127
	// WatchdogTripped is what BusWatchdog reads after the host was silent: -1 as one byte.
	WatchdogTripped = 0xFF
)

// Bits of HardwareError. Source: e-manual, "Hardware Error Status".
var hardwareErrors = []struct {
	bit  byte
	text string
}{
	{0x01, "input voltage out of range"}, {0x04, "overheating"}, {0x08, "motor encoder"}, {0x10, "electrical shock or insufficient power"},
	{0x20, "overload"},
}

// HardwareErrorText names the bits of a hardware error status, "none" for 0.
func HardwareErrorText(status byte) string {
	text := ""
	for _, e := range hardwareErrors {
		if status&e.bit != 0 {
			if text != "" {
				text += ", "
			}
			text += e.text
		}
	}
	if text == "" {
		return "none"
	}
	return text
}

// Bytes is v as the register's little endian bytes.
func (r Register) Bytes(v int64) []byte {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], uint64(v))
	return b[:r.Size]
}

// Int reads the register's bytes as a signed number.
func (r Register) Int(b []byte) int64 {
	switch r.Size {
	case 1:
		return int64(int8(b[0]))
	case 2:
		return int64(int16(binary.LittleEndian.Uint16(b)))
	}
	return int64(int32(binary.LittleEndian.Uint32(b)))
}
