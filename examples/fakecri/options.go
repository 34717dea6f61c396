package main

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/nodekit-go/nodekit/runtime/runtimetest"
)

type options struct {
	socket  string
	images  []string
	lives   map[string]runtimetest.Life
	chatter time.Duration
}

func parse(args []string, stderr io.Writer) (*options, error) {
	o := &options{lives: make(map[string]runtimetest.Life)}
	fs := pflag.NewFlagSet("fakecri", pflag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.StringVar(&o.socket, "socket", "/tmp/fakecri.sock", "`path` of the unix socket to listen on")
	fs.StringSliceVar(&o.images, "image", nil, "`name` of an image that is present (may be repeated); without it any name can be pulled")
	lives := fs.StringArray("life", nil, "how containers of a name live: `NAME=run|exit:CODE@AFTER|oom@AFTER|fail:TEXT|stubborn`, as in app=exit:1@10s (may be repeated)")
	fs.DurationVar(&o.chatter, "chatter", 0, "time between two log lines of a container; 0 is one line at its start")
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	if fs.NArg() > 0 {
		return nil, fmt.Errorf("unknown argument %q", fs.Arg(0))
	}
	if o.chatter < 0 {
		return nil, fmt.Errorf("--chatter is %v, want 0 or more", o.chatter)
	}
	var err error
	if o.socket, err = filepath.Abs(o.socket); err != nil {
		return nil, err
	}
	for _, text := range *lives {
		name, life, err := parseLife(text)
		if err != nil {
			return nil, fmt.Errorf("--life %s: %w", text, err)
		}
		o.lives[name] = life
	}
	return o, nil
}

// imageList is nil without images, so that every name can be pulled.
func (o *options) imageList() []runtimetest.Image {
	var images []runtimetest.Image
	for _, name := range o.images {
		images = append(images, runtimetest.Image{Name: name})
	}
	return images
}

// chatterLines is how many lines a container writes at most.
const chatterLines = 1000

// script decides how a container lives.
func (o *options) script(c runtimetest.Instance) *runtimetest.Life {
	life := o.lives[c.Config.GetMetadata().GetName()]
	life.Echo = true
	life.Log = []runtimetest.LogLine{{Text: "hello from " + c.Config.GetMetadata().GetName()}}
	for n := 1; o.chatter > 0 && n <= chatterLines; n++ {
		life.Log = append(life.Log, runtimetest.LogLine{After: time.Duration(n) * o.chatter, Text: fmt.Sprintf("line %d", n)})
	}
	return &life
}

// parseLife reads NAME=KIND[:DETAIL][@AFTER].
func parseLife(text string) (name string, life runtimetest.Life, err error) {
	name, rest, found := strings.Cut(text, "=")
	if !found || name == "" {
		return "", life, errors.New("want NAME=KIND")
	}
	rest, after, found := strings.Cut(rest, "@")
	exit := runtimetest.Exit{}
	if found {
		if exit.After, err = time.ParseDuration(after); err != nil {
			return "", life, err
		}
	}
	kind, detail, _ := strings.Cut(rest, ":")
	switch kind {
	case "run":
	case "stubborn":
		life.IgnoreTerm = true
	case "fail":
		life.StartError = detail
	case "oom":
		exit.OOM = true
		life.Exit = &exit
	case "exit":
		code, err := strconv.ParseInt(detail, 10, 32)
		if err != nil {
			return "", life, fmt.Errorf("exit code: %w", err)
		}
		exit.Code = int32(code)
		life.Exit = &exit
	default:
		return "", life, fmt.Errorf("unknown kind %q, want run, exit, oom, fail or stubborn", kind)
	}
	return name, life, nil
}
