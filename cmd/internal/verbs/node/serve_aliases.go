package node

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"

	"github.com/pinch-robotics/pinch/cmd/internal/program"
	"github.com/pinch-robotics/pinch/deploy"
	"github.com/pinch-robotics/pinch/deploy/serving"
)

// runServeAliases serves the pools of a file of aliases, and follows the file while it serves.
func runServeAliases(ctx context.Context, path string, o serveOptions, out, errOut io.Writer) error {
	c, err := serving.Load(path)
	if err != nil {
		return program.UsageError{Err: err}
	}
	o.Logger = o.Log.Logger(errOut)
	load := func(ctx context.Context, m serving.Member) (deploy.Policy, error) {
		if m.Remote != "" {
			return deploy.Dial(ctx, m.Remote, deploy.ClientOptions{APIKey: m.APIKey, Override: m.Contract})
		}
		return deploy.LoadCheckpoint(m.Checkpoint, o.Policy)
	}
	r, err := serving.New(ctx, c, serving.Options{Load: load, Logger: o.Logger})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	followed := make(chan struct{})
	go func() {
		defer close(followed)
		r.Run(ctx, path)
	}()
	defer func() {
		cancel()
		<-followed
	}()
	o.APIKey = os.Getenv(apiKeyVariable)
	o.Pages = map[string]http.HandlerFunc{"/aliases": r.ServeHTTP}
	o.Ready = func(addr net.Addr) {
		url := "ws://" + addr.String()
		if o.JSON {
			_ = json.NewEncoder(out).Encode(map[string]any{"ready": true, "url": url, "aliases": r.Status()})
			return
		}
		fmt.Fprintf(out, "serving the aliases of %s at %s/ALIAS; their state is at http://%s/aliases\n", path, url, addr)
	}
	if err := deploy.ServeRouter(ctx, r, o.ServeOptions); err != nil {
		return err
	}
	return ctx.Err()
}
