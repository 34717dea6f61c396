package logs

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
)

// outputTimeFormat is RFC 3339 with nine digits always, as kubectl logs --timestamps
// shows it.
const outputTimeFormat = "2006-01-02T15:04:05.000000000Z07:00"

// Copy writes the text of a log to w, pieces of a line joined, for kubectl logs. It
// returns nil at the end of the log or of Options.Limit, else the error of ctx, of the
// log or of w. What there is of the log has been written whenever it waits for more.
func Copy(ctx context.Context, w io.Writer, f File, opts Options) error {
	out := &output{w: bufio.NewWriterSize(w, readSize), timestamps: opts.Timestamps, left: -1, atStart: true, newline: [1]byte{'\n'}}
	if opts.Limit > 0 {
		out.left = opts.Limit
	}
	err := read(ctx, f, opts, out.write, out.flush)
	switch {
	case out.err != nil:
		return fmt.Errorf("write log: %w", out.err)
	case errors.Is(err, errStop):
		return out.flush()
	case err != nil:
		// What was read is the caller's, whatever came after it.
		if flush := out.flush(); flush != nil {
			return errors.Join(err, flush)
		}
		return err
	}
	return nil
}

// output writes entries.
type output struct {
	w          *bufio.Writer
	timestamps bool
	// left is how many bytes may still be written; negative is no limit.
	left int64
	// atStart says that a line begins.
	atStart bool
	err     error
	stamp   [len(outputTimeFormat) + 2]byte
	newline [1]byte
}

// write reports whether there may be more.
func (o *output) write(e Entry) bool {
	if o.timestamps && o.atStart {
		stamp := e.Time.AppendFormat(o.stamp[:0], outputTimeFormat)
		o.put(append(stamp, ' '))
	}
	o.put(e.Text)
	if !e.Partial {
		o.put(o.newline[:])
	}
	o.atStart = !e.Partial
	return o.err == nil && o.left != 0
}

func (o *output) put(b []byte) {
	if o.err != nil {
		return
	}
	if o.left >= 0 {
		b = b[:min(int64(len(b)), o.left)]
		o.left -= int64(len(b))
	}
	_, o.err = o.w.Write(b)
}

// flush is called whenever there is nothing to write.
func (o *output) flush() error {
	if err := o.w.Flush(); err != nil {
		return fmt.Errorf("write log: %w", err)
	}
	return nil
}
