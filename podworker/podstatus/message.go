package podstatus

import (
	"bytes"
	"strings"
)

// The limits of termination messages
// (https://kubernetes.io/docs/tasks/debug/debug-application/determine-reason-pod-failure/).
const (
	// MaxMessage is how many bytes of the file a container leaves its last words in
	// count.
	MaxMessage = 4096
	// maxLogLines and maxLogBytes bound what is taken of its log instead.
	maxLogLines = 80
	maxLogBytes = 2048
)

// FileMessage returns the message in the content of a container's file, of which the
// first [MaxMessage] bytes count. What is not text is left out.
func FileMessage(content []byte) string {
	return strings.ToValidUTF8(string(content[:min(len(content), MaxMessage)]), "")
}

// LogMessage returns the message in the end of a container's log, for one that left no
// file: the text of the last 80 lines, of it the last 2048 bytes. Lines of a CRI log
// are "<time> <stream> <P|F> <text>"; P marks one that goes on in the next. What has
// another form is left out.
func LogMessage(log []byte) string {
	var lines []string
	open := false
	for raw := range bytes.Lines(log) {
		parts := strings.SplitN(string(raw), " ", 4)
		if len(parts) < 4 {
			continue
		}
		text := parts[3]
		partial := strings.HasPrefix(parts[2], "P")
		if partial {
			text = strings.TrimSuffix(text, "\n")
		}
		if open {
			lines[len(lines)-1] += text
		} else {
			lines = append(lines, text)
		}
		open = partial
	}
	text := strings.Join(lines[max(len(lines)-maxLogLines, 0):], "")
	return strings.ToValidUTF8(text[max(len(text)-maxLogBytes, 0):], "")
}
