package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wavehouse/wavehouse/internal/nearest"
	"github.com/wavehouse/wavehouse/internal/units"
)

// setText reads text into the key's value.
func setText(k key, text string) error {
	switch v := k.value.(type) {
	case *string:
		if err := choose(k, text); err != nil {
			return err
		}
		*v = text
	case *Secret:
		*v = Secret(text)
	case *[]string:
		return setList(k, v, strings.Split(text, ","))
	case *bool:
		return setBool(v, text)
	case *int:
		n, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("%q is not a whole number", text)
		}
		*v = n
	case *float64:
		f, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return fmt.Errorf("%q is not a number", text)
		}
		*v = f
	case *time.Duration:
		return setDuration(v, text)
	case *int64:
		return setSize(v, text)
	default:
		panic(fmt.Sprintf("config: key %s has type %T, which cannot be set", k.name, v))
	}
	return nil
}

func setList(k key, v *[]string, items []string) error {
	list := make([]string, 0, len(items))
	for _, item := range items {
		item = strings.TrimSpace(item)
		if err := choose(k, item); err != nil {
			return err
		}
		if slices.Contains(list, item) {
			return fmt.Errorf("%q is named twice", item)
		}
		list = append(list, item)
	}
	*v = list
	return nil
}

func setBool(v *bool, text string) error {
	switch text {
	case "true":
		*v = true
	case "false":
		*v = false
	default:
		return fmt.Errorf("%q is neither true nor false", text)
	}
	return nil
}

func setDuration(v *time.Duration, text string) error {
	d, err := units.ParseDuration(text)
	if err != nil {
		return err
	}
	*v = d
	return nil
}

// setSize takes a size with a unit, or a number of bytes.
func setSize(v *int64, text string) error {
	n, err := units.ParseSize(text)
	if _, notNumber := strconv.ParseUint(text, 10, 64); notNumber == nil {
		n, err = units.SizeOf(text, 1)
	}
	if err != nil {
		return err
	}
	*v = n
	return nil
}

func choose(k key, text string) error {
	if k.choices == nil || slices.Contains(k.choices, text) {
		return nil
	}
	message := fmt.Sprintf("%q is not one of %s", text, strings.Join(k.choices, ", "))
	if near, ok := nearest.Name(text, k.choices); ok {
		message += fmt.Sprintf("; did you mean %q?", near)
	}
	return fmt.Errorf("%s", message)
}

// text writes the key's value the way setText reads it, a secret as its mask.
func (k key) text() string {
	switch v := k.value.(type) {
	case *string:
		return *v
	case *Secret:
		return v.String()
	case *[]string:
		return strings.Join(*v, ",")
	case *bool:
		return strconv.FormatBool(*v)
	case *int:
		return strconv.Itoa(*v)
	case *float64:
		return strconv.FormatFloat(*v, 'g', -1, 64)
	case *time.Duration:
		return units.FormatDuration(*v)
	case *int64:
		return units.FormatSize(*v)
	}
	panic(fmt.Sprintf("config: key %s has type %T, which cannot be shown", k.name, k.value))
}
