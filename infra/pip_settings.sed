# From the lines of `pip config list` to a shell's exports, for uv reads none of pip's settings: sed -nE -f infra/pip_settings.sed
# pip lists its variables before its files, and what is set already stays.  Several values are parted by spaces or line ends
# there; uv wants commas between folders.
s/^(global|install|:env:)\.//
t setting
d
:setting
/^find-links=/s/(\\n| )+/,/g
s/\\n/ /g
s/='[ ,]*/='/
s/^index-url=(.*)/[ "${UV_DEFAULT_INDEX+set}" ] || export UV_DEFAULT_INDEX=\1/p
s/^extra-index-url=(.*)/[ "${UV_EXTRA_INDEX_URL+set}" ] || export UV_EXTRA_INDEX_URL=\1/p
s/^find-links=(.*)/[ "${UV_FIND_LINKS+set}" ] || export UV_FIND_LINKS=\1/p
s/^no-index=(.*)/[ "${UV_NO_INDEX+set}" ] || export UV_NO_INDEX=\1/p
s/^trusted-host=(.*)/[ "${UV_INSECURE_HOST+set}" ] || export UV_INSECURE_HOST=\1/p
s/^cert=(.*)/[ "${SSL_CERT_FILE+set}" ] || export SSL_CERT_FILE=\1/p
