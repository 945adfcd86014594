package rig

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/pinch-robotics/pinch/cmd/internal/program"
	"github.com/pinch-robotics/pinch/deploy"
	"github.com/pinch-robotics/pinch/internal/config"
)

// replayLog is `pinch deploy --replay`: nothing moves.
func replayLog(ctx context.Context, o deployOptions, out, errOut io.Writer) error {
	if o.Policy != "" || o.Record != "" || o.Cell.Sim {
		return program.Usage("--replay: nothing moves and nothing is recorded; leave out --policy, --record and --sim")
	}
	opts := deploy.ReplayOptions{Logger: o.Log.Logger(errOut)}
	if o.Cell.File != "" || len(o.Cell.Set) > 0 {
		opts.Change = func(c *deploy.Cell) error {
			if o.Cell.File != "" {
				file, err := deploy.LoadCell(o.Cell.File)
				if err != nil {
					return program.UsageError{Err: err}
				}
				*c = file
			}
			if err := config.Set(c, o.Cell.Set...); err != nil {
				return program.UsageError{Err: err}
			}
			return nil
		}
	}
	report, err := deploy.ReplayLog(ctx, o.Replay, opts)
	if err != nil {
		return err
	}
	if o.JSON {
		if err := json.NewEncoder(out).Encode(report); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(out, "%d runs, %d control steps, %d decisions equal\n", report.Runs, report.Steps, report.Decisions)
	}
	if report.First != nil {
		return report.First
	}
	return nil
}
