// Package program has what the example programs of a node share: the flags of
// their log and the version they tell.
package program

import (
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"strconv"
	"strings"
)

// DebugFrom is the verbosity from which upstream logs are for debugging
// (https://github.com/kubernetes/community/blob/master/contributors/devel/sig-instrumentation/logging.md).
const DebugFrom = 4

// LogLevel is a flag for a slog.Level that also takes upstream's numbers. It
// implements pflag.Value; the zero value is info.
type LogLevel struct{ slog.Level }

// Set reads a level by its name or its number.
func (l *LogLevel) Set(s string) error {
	if n, err := strconv.Atoi(s); err == nil {
		l.Level = slog.LevelInfo
		if n >= DebugFrom {
			l.Level = slog.LevelDebug
		}
		return nil
	}
	return l.UnmarshalText([]byte(s))
}

// String returns the level in lower case.
func (l *LogLevel) String() string { return strings.ToLower(l.Level.String()) }

// Type names the value in the help.
func (l *LogLevel) Type() string { return "level" }

// Logger returns a logger for the value of the flag --log-format: "text", which
// is also what an empty one means, or "json". The level may be a *slog.LevelVar.
func Logger(w io.Writer, level slog.Leveler, format string) (*slog.Logger, error) {
	opts := &slog.HandlerOptions{Level: level}
	switch format {
	case "", "text":
		return slog.New(slog.NewTextHandler(w, opts)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, opts)), nil
	}
	return nil, fmt.Errorf("--log-format is %q, want text or json", format)
}

// baseline is the release of Kubernetes whose behaviour the programs have.
const baseline = "v1.37.2"

// Version is the baseline with nodekit's own version as build metadata.
func Version() string {
	own := "devel"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		own = strings.ReplaceAll(strings.TrimPrefix(info.Main.Version, "v"), "+", ".")
	}
	return baseline + "+nodekit." + own
}
