package program

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

func TestLogLevel(t *testing.T) {
	for value, want := range map[string]string{"debug": "debug", "WARN": "warn", "0": "info", "2": "info", "4": "debug", "10": "debug"} {
		var l LogLevel
		if err := l.Set(value); err != nil || l.String() != want {
			t.Errorf("level %q is %s, %v; want %s", value, l.String(), err, want)
		}
	}
	var l LogLevel
	if err := l.Set("loud"); err == nil {
		t.Error("level loud was taken")
	}
}

func TestLogger(t *testing.T) {
	tests := []struct{ format, want string }{
		{format: "", want: "msg=seen"},
		{format: "text", want: "msg=seen"},
		{format: "json", want: `"msg":"seen"`},
	}
	for _, tt := range tests {
		var out bytes.Buffer
		log, err := Logger(&out, slog.LevelInfo, tt.format)
		if err != nil {
			t.Fatal(err)
		}
		log.Debug("unseen")
		log.Info("seen")
		if got := out.String(); !strings.Contains(got, tt.want) || strings.Contains(got, "unseen") {
			t.Errorf("format %q wrote %q, want %q in it", tt.format, got, tt.want)
		}
	}
	if _, err := Logger(nil, slog.LevelInfo, "xml"); err == nil || !strings.Contains(err.Error(), "xml") {
		t.Errorf("error of format xml is %v, want it to name it", err)
	}
}

func TestVersion(t *testing.T) {
	if v := Version(); !strings.HasPrefix(v, "v1.37.2+nodekit.") {
		t.Errorf("version is %s", v)
	}
}
