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
// configuration; nil: there is none yet.
func (l *logging) logger(w io.Writer, k *kubeletconfig.KubeletConfiguration) (*slog.Logger, error) {
	level, format := l.level.Level, l.format
	if k != nil && !l.levelSet && k.Logging.Verbosity >= program.DebugFrom {
		level = slog.LevelDebug
	}
	if format == "" && k != nil {
		format = k.Logging.Format
	}
	return program.Logger(w, level, format)
}
