package rig

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/spf13/pflag"

	"github.com/pinch-robotics/pinch/cmd/internal/child"
	"github.com/pinch-robotics/pinch/cmd/internal/program"
	"github.com/pinch-robotics/pinch/deploy"
	"github.com/pinch-robotics/pinch/internal/config"
)

// cellFlags say which cell a verb drives.
type cellFlags struct {
	File string
	Sim  bool
	Set  []string
}

// AddFlags adds --cell, --sim and --set.
func (o *cellFlags) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&o.File, "cell", "", "YAML `file` of the cell: address of the arm process, limits, control (default: built-in values)")
	f.BoolVar(&o.Sim, "sim", false, "start the simulated cell for this run")
	f.StringArrayVar(&o.Set, "set", nil, "set one `KEY=VALUE` of the cell, for instance control.lead_ms=150; may be given again")
}

func (o *cellFlags) load() (deploy.Cell, error) {
	c := deploy.DefaultCell()
	if o.File != "" {
		var err error
		if c, err = deploy.LoadCell(o.File); err != nil {
			return c, program.UsageError{Err: err}
		}
	}
	if err := config.Set(&c, o.Set...); err != nil {
		return c, program.UsageError{Err: err}
	}
	return c, nil
}

// session is a deploy.Session that also ends the simulated cell it was started with.
type session struct {
	*deploy.Session
	cell *child.Child // nil at a cell that runs by itself
}

// Close closes the connection, then the cell.
func (s *session) Close() error {
	err := s.Session.Close()
	if s.cell != nil {
		err = errors.Join(err, s.cell.Finish())
	}
	return err
}

// connect reaches the cell; with sim it starts one first. errOut gets what the cell's process writes.
func connect(ctx context.Context, cell deploy.Cell, sim bool, log *slog.Logger, errOut io.Writer) (*session, error) {
	s := &session{}
	if sim {
		path, err := program.HelperPath("pinch-sim")
		if err != nil {
			return nil, err
		}
		var ready struct {
			ArmLink string `json:"armlink"`
		}
		s.cell, err = child.Start(ctx, child.Options{
			Path: path, Args: []string{"sim", "robot", "--json", "--listen", "tcp:127.0.0.1:0", "--clients", "1"}, Log: errOut, Ready: &ready,
		})
		if err != nil {
			return nil, fmt.Errorf("start the simulated cell: %w", err)
		}
		cell.ArmLink = ready.ArmLink
	}
	var err error
	if s.Session, err = deploy.Connect(ctx, cell, deploy.ConnectOptions{Logger: log}); err != nil {
		if s.cell != nil {
			err = errors.Join(err, s.cell.Stop())
		}
		return nil, err
	}
	return s, nil
}
