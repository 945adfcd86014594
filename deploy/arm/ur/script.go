package ur

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
)

// script is the program that runs on the controller while we stream. One thread follows the newest target with servoj, one cycle each; the main
// thread takes targets from our socket. Whatever ends the stream - silence longer than the time each message states, a closed socket, an order
// to end, a jump - ends in stopj. Between two targets the arm goes to the last one and no further: nothing is extrapolated.
const script = `def pinch_stream():
  set_tcp(p[0, 0, 0, 0, 0, 0])
  global running = True
  global target = get_actual_joint_positions()
  steptime = get_steptime()
  global period = steptime
  thread follow():
    while running:
      servoj(target, 0, 0, period, %LOOKAHEAD%, %GAIN%)
    end
    stopj(%STOP%)
  end
  def near(a, b):
    i = 0
    while i < 6:
      if norm(a[i] - b[i]) > %JUMP%:
        return False
      end
      i = i + 1
    end
    return True
  end
  if socket_open("%HOST%", %PORT%, "pinch"):
    worker = run follow()
    patience = 2.0
    while running:
      m = socket_read_binary_integer(8, "pinch", patience)
      if m[0] != 8:
        textmsg("pinch: no command in time")
        running = False
      elif m[8] != 1:
        textmsg("pinch: end")
        running = False
      else:
        patience = m[1] / 1000
        q = [m[2] / %SCALE%, m[3] / %SCALE%, m[4] / %SCALE%, m[5] / %SCALE%, m[6] / %SCALE%, m[7] / %SCALE%]
        if near(q, target):
          enter_critical
          target = q
          exit_critical
        else:
          textmsg("pinch: a target jumps")
          running = False
        end
      end
    end
    join worker
    socket_close("pinch")
  else:
    textmsg("pinch: can not reach the arm process")
  end
end
`

// Values of the script. The stop deceleration is that of the vendor's own driver; the jump, per message, is five cycles at the fastest joint.
const (
	scale      = 1_000_000 // targets travel as integers of 1e-6 rad
	stopDecel  = 4.0       // rad/s²
	jumpRad    = 0.07
	modeFollow = 1
	modeEnd    = 0
)

// program fills the script in.
func program(host string, port int, lookaheadS, gain float64) string {
	return strings.NewReplacer("%HOST%", host, "%PORT%", fmt.Sprint(port), "%LOOKAHEAD%", fmt.Sprintf("%.4f", lookaheadS),
		"%GAIN%", fmt.Sprintf("%.0f", gain), "%STOP%", fmt.Sprintf("%.1f", stopDecel), "%JUMP%", fmt.Sprint(jumpRad),
		"%SCALE%", fmt.Sprint(scale)).Replace(script)
}

// message is one command on the reverse socket: eight int32, big endian: the time in ms within which the next one has to come, six targets, mode.
func message(b []byte, deadManMS int, q [6]float64, mode int32) []byte {
	b = binary.BigEndian.AppendUint32(b[:0], uint32(int32(deadManMS)))
	for _, v := range q {
		b = binary.BigEndian.AppendUint32(b, uint32(int32(math.Round(v*scale))))
	}
	return binary.BigEndian.AppendUint32(b, uint32(mode))
}
