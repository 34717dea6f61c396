package pluginwatch

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// errYielded is the cause by which a plugin gives its name to another one.
var errYielded = errors.New("another plugin has taken its name")

// tend keeps the plugin behind a socket registered until ctx ends.
func (w *Watcher) tend(ctx context.Context, socket string) {
	told := "" // the failure that was logged last
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		registered, err := w.register(ctx, socket)
		if ctx.Err() != nil {
			return
		}
		if registered {
			pause, told = firstPause, ""
		}
		if text := err.Error(); text != told {
			w.log.Warn("plugin not registered, it is asked again", "socket", socket, "in", pause, "err", err)
			told = text
		}
		again := time.NewTimer(pause)
		select {
		case <-again.C:
		case <-ctx.Done():
			again.Stop()
			return
		}
	}
}

// register registers a plugin, and returns when it is not registered any more or when
// that failed, with the reason.
func (w *Watcher) register(ctx context.Context, socket string) (registered bool, err error) {
	conn, err := w.dial(socket)
	if err != nil {
		return false, err
	}
	defer conn.close()
	p, err := conn.info(ctx)
	if err != nil {
		return false, err
	}
	handler := w.cfg.Handlers[p.Type]
	if handler == nil {
		return false, conn.refuse(ctx, fmt.Errorf("plugins of type %q are not known", p.Type))
	}
	life, yield := context.WithCancelCause(ctx)
	defer yield(nil)
	release, err := w.claim(life, p, yield)
	if err != nil {
		return false, conn.refuse(ctx, err)
	}
	defer release()
	if err := handler.Register(life, p); err != nil {
		return false, conn.refuse(ctx, err)
	}
	err = conn.accept(life)
	if registered = err == nil; registered {
		conn.close()
		w.log.Info("plugin registered", "type", p.Type, "name", p.Name, "endpoint", p.Endpoint)
		<-life.Done()
		err = context.Cause(life)
	}
	if ctx.Err() != nil && !errors.Is(context.Cause(ctx), errGone) {
		return registered, ctx.Err() // the agent ends: the plugin is still there
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.cfg.Timeout)
	defer cancel()
	handler.Deregister(bounded, p)
	w.log.Info("plugin deregistered", "type", p.Type, "name", p.Name, "endpoint", p.Endpoint, "reason", err)
	return registered, err
}
