//go:build !linux

package logs

import (
	"errors"
	"os"
)

// errPlatform is the error of everything here: without openat2 nothing keeps a path
// below its folder.
var errPlatform = errors.New("logs are read on Linux only")

func openBeneath(string, string) (*os.File, error)   { return nil, errPlatform }
func infoBeneath(*os.File, string) (fileInfo, error) { return fileInfo{}, errPlatform }
func openIn(*os.File, string) (*os.File, error)      { return nil, errPlatform }
func createIn(*os.File, string) (*os.File, error)    { return nil, errPlatform }
func renameIn(*os.File, string, string) error        { return errPlatform }
func replaceIn(*os.File, string, string) error       { return errPlatform }
func removeIn(*os.File, string) error                { return errPlatform }
func infoIn(*os.File, string) (fileInfo, error)      { return fileInfo{}, errPlatform }
func infoOf(*os.File) (fileInfo, error)              { return fileInfo{}, errPlatform }
