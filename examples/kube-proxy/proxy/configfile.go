package proxy

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"reflect"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/nodekit-go/nodekit/proxier/config"
)

// configFile ends the program when its configuration file says something else than at
// the start, as kube-proxy's does: whoever runs it starts it again, and meanwhile the
// rules stay. A file that is not valid ends nothing.
type configFile struct {
	path    string
	loaded  *config.Config
	problem func(error)
	log     *slog.Logger
}

// recheck finds what no event told of.
const recheck = 10 * time.Second

// Run watches the file until ctx ends, and then returns nil; it returns an error when the
// file has changed.
func (f *configFile) Run(ctx context.Context) error {
	// The directory, since files are replaced, and those of a ConfigMap by a link there.
	hints, err := fsnotify.NewWatcher()
	if err == nil {
		defer func() { _ = hints.Close() }()
		err = hints.Add(filepath.Dir(f.path))
	} else {
		hints = &fsnotify.Watcher{}
	}
	if err != nil {
		f.log.Warn("changes of the configuration file are found late", "after", recheck, "err", err)
	}
	tick := time.NewTicker(recheck)
	defer tick.Stop()
	for concerned := true; ; {
		if concerned {
			if err := f.check(); err != nil {
				return err
			}
		}
		concerned = true
		select {
		case <-ctx.Done():
			return nil
		case event := <-hints.Events:
			concerned = f.concerns(event.Name)
		case err := <-hints.Errors:
			f.log.Debug("a change of the configuration file may have been missed", "err", err)
		case <-tick.C: // whatever was missed
		}
	}
}

// concerns reports whether an event of the directory is about the file, or about a link
// that those of a ConfigMap are behind: it may be one in which logs are written.
func (f *configFile) concerns(name string) bool {
	name = filepath.Base(name)
	return name == filepath.Base(f.path) || strings.HasPrefix(name, "..")
}

// check returns an error if the file says something else than was loaded.
func (f *configFile) check() error {
	now, err := config.Load(f.path)
	f.problem(err)
	if err == nil && !reflect.DeepEqual(now.KubeProxyConfiguration, f.loaded.KubeProxyConfiguration) {
		return fmt.Errorf("the configuration file %s has changed: start again to use it", f.path)
	}
	return nil
}
