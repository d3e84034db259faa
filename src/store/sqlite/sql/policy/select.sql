SELECT text, digest, pushed_at, pushed_by FROM policy
