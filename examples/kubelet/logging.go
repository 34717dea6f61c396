package main

import (
	"io"
	"log/slog"

	"github.com/spf13/pflag"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"github.com/nodekit-go/nodekit/examples/internal/cli"
	"github.com/nodekit-go/nodekit/examples/internal/program"
)

// logging are the flags of the log, which win over the configuration.
type logging struct {
	level    program.LogLevel
	levelSet bool
	format   string
	// now is the level in force.
	now slog.LevelVar
}

// add defines the flags.
func (l *logging) add(f *pflag.FlagSet) {
	f.VarP(&l.level, "log-level", "v", "`level` debug, info, warn or error; numbers are taken as in the kubelet, from 4 on debug")
	f.StringVar(&l.format, "log-format", "", "`format` of the log, text or json; default: logging.format of the configuration")
	f.Var(&l.level, "v", "like --log-level")
	f.Lookup("v").Hidden = true
	cli.Values(f, "log-level", "debug", "info", "warn", "error")
	cli.Values(f, "log-format", "text", "json")
}

// logger returns the logger that the flags ask for, and where they are not given, the
// configuration.
func (l *logging) logger(w io.Writer, k *kubeletconfig.KubeletConfiguration) (*slog.Logger, error) {
	level, format := l.level.Level, l.format
	if k != nil && !l.levelSet && k.Logging.Verbosity >= program.DebugFrom {
		level = slog.LevelDebug
	}
	if format == "" && k != nil {
		format = k.Logging.Format
	}
	l.now.Set(level)
	return program.Logger(w, &l.now, format)
}

// setVerbosity changes the level while the program runs; it is given what the flag takes.
func (l *logging) setVerbosity(level string) error {
	var to program.LogLevel
	if err := to.Set(level); err != nil {
		return err
	}
	l.now.Set(to.Level)
	return nil
}
