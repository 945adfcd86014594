package eval

import (
	"context"

	"github.com/pinch-robotics/pinch/deploy"
	"github.com/pinch-robotics/pinch/internal/wire/armlink"
)

// Robot is a cell under control: what eval needs of deploy.Session, which implements it.
type Robot interface {
	Hello() armlink.Hello
	Now() int64
	Home(ctx context.Context, starts [2]deploy.HandStart) error
	Run(ctx context.Context, opts deploy.RunOptions) (deploy.Result, error)
	Recover(ctx context.Context) error
	SetScene(ctx context.Context, condition []byte) error
	Truth(ctx context.Context) (*armlink.Truth, error)
	Close() error
}

var _ Robot = (*deploy.Session)(nil)
