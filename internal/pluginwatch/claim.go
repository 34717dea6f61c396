package pluginwatch

import (
	"context"
	"fmt"
	"sync"
)

// claim is what only one plugin can have.
type claim struct{ kind, name string }

// claims are the names that are taken.
type claims struct {
	mu   sync.Mutex // guards held
	held map[claim]*holder
}

// holder is the socket of a plugin that has a name.
type holder struct {
	socket   string
	yield    context.CancelCauseFunc // makes it give the name back
	released chan struct{}           // closed when it has
}

// claim takes the name of a plugin, which is given back by release. One that has the
// name already keeps it if it answers, else it has to yield.
func (w *Watcher) claim(ctx context.Context, p Plugin, yield context.CancelCauseFunc) (release func(), err error) {
	name := claim{p.Type, p.Name}
	mine := &holder{socket: p.Socket, yield: yield, released: make(chan struct{})}
	for {
		other := w.claims.take(name, mine)
		if other == nil {
			return func() { w.claims.give(name, mine) }, nil
		}
		if w.answers(ctx, other.socket, p) {
			return nil, fmt.Errorf("a %s named %s is registered by %s, and answers there", p.Type, p.Name, other.socket)
		}
		other.yield(errYielded)
		select {
		case <-other.released:
		case <-ctx.Done():
			return nil, fmt.Errorf("wait until %s is deregistered: %w", other.socket, ctx.Err())
		}
	}
}

// take returns who has the name, nil if that is now mine.
func (c *claims) take(name claim, mine *holder) (other *holder) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if other = c.held[name]; other == nil {
		c.held[name] = mine
	}
	return other
}

func (c *claims) give(name claim, mine *holder) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.held, name)
	close(mine.released)
}

// answers reports whether the plugin is still behind a socket.
func (w *Watcher) answers(ctx context.Context, socket string, p Plugin) bool {
	conn, err := w.dial(socket)
	if err != nil {
		return false
	}
	defer conn.close()
	now, err := conn.info(ctx)
	return err == nil && now.Type == p.Type && now.Name == p.Name
}
