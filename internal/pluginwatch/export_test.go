package pluginwatch

import "github.com/nodekit-go/nodekit/internal/dirwatch"

// CannotWatch has the system refuse to watch anything.
func (w *Watcher) CannotWatch(why error) {
	w.open = func(func(string) bool) (*dirwatch.Watcher, error) { return nil, why }
}
