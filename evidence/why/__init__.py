"""Why a sample loses what it loses: by attribute, by category and range, and what another setting would save."""
