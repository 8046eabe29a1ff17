package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/wavehouse/wavehouse/internal/config"
)

// Budgets of a stop, after server.shutdown_timeout for requests and batches.
const (
	storeTimeout     = 5 * time.Second
	telemetryTimeout = 3 * time.Second
)

// drainTimeout is the worker's part of server.shutdown_timeout; requests in
// flight have the other. A request waits for an fsync at most, a batch for
// ClickHouse.
func (a *App) drainTimeout() time.Duration { return a.config.Server.ShutdownTimeout / 2 }

// Run serves until ctx ends or a component fails, stops everything in order,
// and returns when all have stopped. It returns the failure, or nil after a
// clean stop.
func (a *App) Run(ctx context.Context) error {
	if ctx.Err() != nil {
		a.logger.Info("stopped during the start", "cause", context.Cause(ctx))
		a.closeStores(ctx)
		return nil
	}
	listeners, err := a.listen(context.WithoutCancel(ctx))
	if err != nil {
		a.closeStores(ctx)
		return err
	}
	// Components run on contexts of their own, ended stage by stage: a stop
	// must not take the queue from a request that is still in flight.
	base := context.WithoutCancel(ctx)
	group, failed := errgroup.WithContext(base)
	feeding, stopFeeding := context.WithCancel(base)
	working, stopWorking := context.WithCancel(base)
	serving, stopServing := context.WithCancel(base)
	defer stopServing()
	defer stopWorking()
	defer stopFeeding()

	a.adopt(base, nil)
	group.Go(named("settings", func() error { return a.registry.Run(feeding) }))
	group.Go(named("schema", func() error { return a.schemas.Run(feeding) }))
	group.Go(func() error {
		// What reading settings and tables left behind would stay for minutes, as
		// SpareHeap lets it.
		onceStarted(feeding, func() bool { return len(a.schemas.Pending()) > 0 }, debug.FreeOSMemory)
		return nil
	})
	group.Go(named("auth", func() error { return a.auth.Run(serving) }))
	group.Go(func() error { return a.runBackends(serving) })
	group.Go(named("fleet", func() error { return a.fleet.Run(feeding) }))
	if a.sweeper != nil && a.config.HasRole(config.RoleSweeper) {
		group.Go(named("sweeper", func() error { return a.sweeper.Run(feeding) }))
	}
	if a.config.HasRole(config.RoleAPI) {
		group.Go(named("stream", func() error { return a.hub.Run(serving) }))
	}
	var drained sync.WaitGroup
	if a.config.HasRole(config.RoleIngest) {
		drained.Add(1)
		group.Go(named("worker", func() error {
			defer drained.Done()
			return a.worker.Run(working)
		}))
	}
	for i, listener := range listeners {
		group.Go(named("listener", func() error { return serve(a.servers[i], listener) }))
	}
	a.logger.Info("serving", "addr", listeners[0].Addr().String(), "roles", a.config.Roles, "tenants", len(a.registry.Tenants()))
	if a.started != nil {
		a.started(listeners[0].Addr())
	}

	select {
	case <-ctx.Done():
		a.logger.Info("stopping", "cause", context.Cause(ctx))
	case <-failed.Done():
		a.logger.Error("a component failed: stopping", "error", context.Cause(failed))
	}
	a.stopRequests(base)
	stopFeeding()
	stopWorking()
	drained.Wait() // what it writes last is told, too
	stopServing()
	err = group.Wait()
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = nil // a component was stopped before it had begun
	}
	a.closeStores(base)
	a.closeTelemetry(base)
	a.logger.Info("stopped")
	return err
}

// listen binds every port before anything else runs, so that one that is in
// use refuses the start.
func (a *App) listen(ctx context.Context) ([]net.Listener, error) {
	var listeners []net.Listener
	for _, server := range a.servers {
		listener, err := listenOn(ctx, server.Addr)
		if err != nil {
			for _, open := range listeners {
				_ = open.Close()
			}
			return nil, err
		}
		listeners = append(listeners, listener)
	}
	return listeners, nil
}

func serve(server *http.Server, listener net.Listener) error {
	if err := server.Serve(unparsedListener{listener}); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// stopRequests ends what comes in: readiness first, then streams and the
// listener, then the requests in flight.
func (a *App) stopRequests(ctx context.Context) {
	a.api.BeginStop()
	a.fleet.Leave()
	a.hub.CloseAll("shutdown")
	ctx, cancel := context.WithTimeout(ctx, a.config.Server.ShutdownTimeout-a.drainTimeout())
	defer cancel()
	for _, server := range a.servers {
		if err := server.Shutdown(ctx); err != nil {
			a.logger.Warn("requests were cut off", "error", err)
			_ = server.Close()
		}
	}
	// After the listener, so that no request is refused while it could be taken.
	if err := a.gate.Close(ctx); err != nil {
		a.logger.Warn("the gate did not empty", "error", err)
	}
}

func (a *App) closeTelemetry(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, telemetryTimeout)
	defer cancel()
	if err := a.tracing.Close(ctx); err != nil {
		a.logger.Warn("spans were lost", "error", err)
	}
}

// named says which component an error came from.
func named(component string, run func() error) func() error {
	return func() error {
		if err := run(); err != nil {
			return fmt.Errorf("%s: %w", component, err)
		}
		return nil
	}
}
