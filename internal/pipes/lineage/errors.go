package lineage

import "errors"

var (
	// errLately: the views could not be read a moment ago.
	errLately = errors.New("the views could not be read a moment ago")
	// errTooMany: the server has more views than are looked at.
	errTooMany = errors.New("there are too many views")
)
