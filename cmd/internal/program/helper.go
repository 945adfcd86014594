package program

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/pinch-robotics/pinch/internal/doctor"
)

// Helper is a program beside `pinch` that links a native library.
type Helper struct {
	Name  string // of the executable
	Verbs []Verb
}

// Verb is one entry of the help of `pinch` that a helper carries out.
type Verb struct{ Name, Short string }

// Helpers lists the helper programs. docs/architecture.md has the same table.
var Helpers = []Helper{
	{"pinch-rig", []Verb{
		{"record", "record demonstrations from a handheld rig into raw logs"},
		{"deploy", "drive arms with a policy server"},
		{"home", "move the arms to their home pose, checked for collisions"},
		{"calibrate", "measure what the cell file has to say"},
		{"arm", "the process that owns one robot arm"},
		{"hand", "look at, move or reset a gripper"},
		{"eval", "run scored trials and write a report"},
	}},
	{"pinch-sim", []Verb{
		{"sim", "serve the simulated cell as a handheld rig or as arms"},
	}},
	{"pinch-node", []Verb{
		{"ingest", "turn raw logs into a LeRobot dataset"},
		{"dataset", "check, describe, show and extract datasets"},
		{"data", "move datasets between this machine, S3 and the Hugging Face Hub"},
		{"train", "train a policy on a dataset"},
		{"serve", "serve a checkpoint to robots (openpi protocol)"},
		{"bench", "measure this machine"},
	}},
}

// HelperPath is the path of a helper program: beside the running program.
func HelperPath(name string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find the helper program %s: %w", name, err)
	}
	if self, err = filepath.EvalSymlinks(self); err != nil {
		return "", fmt.Errorf("find the helper program %s: %w", name, err)
	}
	path := filepath.Join(filepath.Dir(self), name)
	if st, err := os.Stat(path); err != nil || st.Mode()&0o111 == 0 {
		return "", fmt.Errorf("the helper program %s is not at %s; run `make build`", name, path)
	}
	return path, nil
}

// PassOn makes the command that hands a verb to its helper: the helper takes this process's place, so signals, terminal and
// exit status are its own.
func PassOn(helper string, verb Verb) *cobra.Command {
	return &cobra.Command{
		Use: verb.Name, Short: verb.Short, DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := HelperPath(helper)
			if err != nil {
				return err
			}
			if err := doctor.CheckLibraries(cmd.Context(), path); err != nil {
				return err
			}
			argv := append([]string{helper, verb.Name}, args...)
			if err := syscall.Exec(path, argv, os.Environ()); err != nil {
				return fmt.Errorf("start the helper program %s: %w", path, err)
			}
			return nil
		},
	}
}
