package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"unsafe"

	"github.com/ebitengine/purego"
)

// engine is the loaded library.
type engine struct {
	cmdline     func(argc int32, argv **byte) uintptr
	resultError func(result uintptr) string
}

// openEngine loads the library. It is never unloaded.
func openEngine(lib string) (*engine, error) {
	handle, err := purego.Dlopen(lib, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, fmt.Errorf("load %s: %w", lib, err)
	}
	e := &engine{}
	for name, f := range map[string]any{"chdb_query_cmdline": &e.cmdline, "chdb_result_error": &e.resultError} {
		symbol, err := purego.Dlsym(handle, name)
		if err != nil {
			return nil, fmt.Errorf("load %s: %w", lib, err)
		}
		purego.RegisterFunc(f, symbol)
	}
	return e, nil
}

// serve runs the engine with the command line that arguments makes, and returns
// when it ends. pipe is a file that never ends and holds nothing.
func (e *engine) serve(arguments func(pipe string) []string) error {
	read, write, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("make the engine's pipe: %w", err)
	}
	defer func() { _, _ = read.Close(), write.Close() }()
	args := arguments(fmt.Sprintf("/dev/fd/%d", read.Fd()))
	argv := make([]*byte, len(args)+1)
	var pin runtime.Pinner
	defer pin.Unpin()
	for i, arg := range args {
		text := append([]byte(arg), 0)
		argv[i] = unsafe.SliceData(text)
		pin.Pin(argv[i])
	}
	result := e.cmdline(int32(len(args)), unsafe.SliceData(argv))
	if result == 0 {
		return errors.New("the engine gave no result")
	}
	if message := strings.TrimSpace(e.resultError(result)); message != "" {
		return errors.New(message)
	}
	return nil
}
