// Command nmeter prints the time of day, like BusyBox's program of this name, which
// Debian's BusyBox does not have:
//
//	nmeter [-d MILLISECONDS] FORMAT
//
// It prints a line per delay, a second by default, until nobody reads them. FORMAT may
// have %Nt, which stands for hours, minutes, seconds and N digits of a second.
package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

func main() {
	delay, format, err := parse(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "nmeter:", err)
		os.Exit(2)
	}
	for {
		// The end of the reader is the end of the program.
		if _, err := fmt.Println(line(format, time.Now().UTC())); err != nil {
			return
		}
		time.Sleep(delay)
	}
}

func parse(args []string) (delay time.Duration, format string, err error) {
	delay = time.Second
	for len(args) > 0 && strings.HasPrefix(args[0], "-d") {
		value := strings.TrimPrefix(args[0], "-d")
		args = args[1:]
		if value == "" && len(args) > 0 {
			value, args = args[0], args[1:]
		}
		milliseconds, err := strconv.ParseUint(value, 10, 31)
		if err != nil {
			return 0, "", fmt.Errorf("-d wants milliseconds, got %q", value)
		}
		delay = time.Duration(milliseconds) * time.Millisecond
	}
	if len(args) != 1 {
		return 0, "", errors.New("usage: nmeter [-d MILLISECONDS] FORMAT")
	}
	return delay, args[0], nil
}

// line puts the time in the place of each %Nt, with N digits after the seconds.
func line(format string, now time.Time) string {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(format, "%")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		text := strings.TrimLeft(after, "0123456789")
		digits, err := strconv.Atoi(after[:len(after)-len(text)])
		rest, ok := strings.CutPrefix(text, "t")
		switch {
		case !ok || digits > 9:
			b.WriteString("%")
			format = after
		case err != nil || digits == 0:
			b.WriteString(now.Format(time.TimeOnly))
			format = rest
		default:
			b.WriteString(now.Format(time.TimeOnly + "." + strings.Repeat("0", digits)))
			format = rest
		}
	}
}
