package apiclient

import (
	"log/slog"

	"k8s.io/klog/v2"
)

// LogTo sends to log what client-go has to say, so that all of a program's log has one
// format. It is for main: client-go has one log for the whole process.
func LogTo(log *slog.Logger) { klog.SetSlogLogger(log) }
