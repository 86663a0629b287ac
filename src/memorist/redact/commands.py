"""Secrets known by their place in a command or a call: `mysql -pX`, `echo X | sudo -S`, `login('ada', X)`."""

from collections.abc import Iterator

from memorist.redact.heuristics import (
    find_windows,
    is_placeholder,
    is_stand_in,
    looks_chosen,
    looks_like_password,
    regex,
)
from memorist.redact.locations import find_value, find_value_end

_Found = Iterator[tuple[int, int, str]]


def find_secrets_in_commands(text: str, lowered: str) -> _Found:
    """Yield start, end and kind of each secret that is an argument of a command, or of a call in code."""
    for window in find_windows(lowered, _PROGRAMS, _MAX_BEFORE_PROGRAM, _MAX_COMMAND_CHARACTERS):
        yield from _find_in_arguments(text, lowered, window)
    if "(" in text and any(name in lowered for name in _CALLED_NAMES):
        yield from _find_in_calls(text, lowered)


_PROGRAMS = (
    *"mysql mariadb login redis-cli requirepass sshpass curl sqlcmd bcp isql osql tsql zip 7z mongo cqlsh".split(),
    *"rdesktop ldap openssl freerdp mstsc smbclient rpcclient lftp sqlplus impdp expdp rman sqlldr passwd".split(),
    *"sudo cryptsetup -stdin /user: storepass keypass mosquitto securestring snmp nmcli".split(),
    *("net user", "enable secret", "enable password", "username ", 'send "', 'send -- "'),
)
_MAX_BEFORE_PROGRAM, _MAX_COMMAND_CHARACTERS = 300, 700
_CALLED_NAMES = ("auth", "login", "connect", "log_in", "signin", "sign_in", "logon", "jwt.", "hmac", "wifi.begin")


def _find_in_arguments(text: str, lowered: str, window: tuple[int, int]) -> _Found:
    """Yield passwords without a name; those after an option that other programs have too must look like one."""
    for form, sure, source in (
        (_MAYBE_LOGINS, False, lowered),
        (_LOGINS, True, lowered),
        (_CAPITAL_OPTIONS, True, text),
        (_PIPED, True, lowered),
    ):
        for found in regex(form).finditer(source, *window):
            start, end, _ = find_value(text, found.end())
            value = text[start:end]
            if len(value) > 3 and not is_placeholder(value) and (sure or looks_like_password(value)):
                yield start, find_value_end(text, start, end), "password"
    for found in regex(_LOGIN_PAIR).finditer(lowered, *window):
        start, end = found.span(found.lastindex or 0)
        if looks_chosen(text[start:end]) and not is_placeholder(text[start:end]):
            yield start, end, "password"


_ARGUMENTS = r"[ ](?:[^\n|;\0]|(?<=\\)\n){0,300}?(?<=[ \t\n])"  # also on further lines, after a backslash
_MAYBE_LOGINS = (
    rf"[ ]login{_ARGUMENTS}-p[ ]|redis-cli{_ARGUMENTS}-a[ ]|requirepass[ ]"
    rf"|(?<![\w-])(?:mongo(?:sh|dump|restore|export|import|stat|top|files)?|cqlsh|rdesktop){_ARGUMENTS}-p[ ]?"
    rf"(?=[^ \t\n-])|(?<![\w-])7z[ar]?{_ARGUMENTS}-p(?=\S)|openssl{_ARGUMENTS}-k[ ]"
    r"|(?<![\w-])net[ ]use[ ](?:[a-z*]:?[ ])?\\\\[^\s\\]{1,100}\\\S{1,100}[ ](?=[^ /])"
    r"|(?<![\w-])htpasswd[ ]-[a-z]{0,6}b[a-z]{0,6}[ ]\S{1,200}[ ]\S{1,64}[ ]"
    r"|(?<![\w-])net[ ]user[ ][\w.\\\"-]{1,64}[ ](?=[^ /*])|-(?:src|dest)?(?:store|key)pass[ ]"
    r"|(?<![\w-])snmp-server[ ]community[ ]|(?<![\w-])snmp[a-z]{3,8}[ ](?:-\S{1,9}[ ]){0,4}-c[ ]"
    rf"|(?<![\w-])nmcli{_ARGUMENTS}password[ ]"
    r"|(?<![\w-])(?:enable|username[ ]\S{1,64}(?:[ ]privilege[ ][0-9]{1,2})?)[ ](?:secret|password)[ ](?:[0-9][ ])?"
    r"|assword[^\n\0]{0,40}\n[ \t]{0,9}send[ ](?:--[ ])?(?=\")"
)
_OTHER_OPTIONS = "rint[0f]?|ath|erm|rune|thread|edantic|arents|reserve|rogress|artial"  # of find, gcc, cp and rsync
_LOGINS = (
    # not the port of `mysql -P3306`, nor an option of another command, such as that of `find mysql -print`
    rf"(?:mysql|mariadb)(?:[_-]?[a-z]{{2,12}})?{_ARGUMENTS}-p(?!\s|(?:[0-9]+|{_OTHER_OPTIONS})(?!\S))"
    r"|sshpass[ ]{1,4}(?:-v[ ]{1,4})?-p[ ]?"
    rf"|curl{_ARGUMENTS}(?:-[a-z]{{0,6}}u|--(?:proxy-)?user)[ =]?[\"']?[^\s:\"'\0]{{1,64}}:"
    r"|login[ \t]{1,20}\S{1,64}\s{1,20}password[ \t]{1,20}"
    rf"|(?<![\w-])ldap[a-z]{{3,10}}{_ARGUMENTS}-w[ ]?(?=[^ \t\n-])|(?:freerdp|mstsc){_ARGUMENTS}/p:"
    rf"|(?<![\w-])(?:smbclient|rpcclient|smbget|net){_ARGUMENTS}-u[ ]?[\"']?[\w.\\@-]{{1,64}}%"
    rf"|(?<![\w-])lftp{_ARGUMENTS}-u[ ]?[\"']?[\w.@-]{{1,64}},"
    r"|convertto-securestring[ ](?:-string[ ])?(?=[\"'])"
)
# `unzip -p` and `bcp -p` mean something else.
_CAPITAL_OPTIONS = (
    rf"(?<![\w-])(?:sqlcmd|bcp|isql|osql|tsql|(?:un)?zip|zipcloak|mosquitto_[a-z]{{2,3}})(?:\.exe)?{_ARGUMENTS}"
    r"-P[ ]?(?=[^ \t\n-])"
)
_PIPED = (
    r"(?<![\w-])(?:echo|printf)[ ](?:-[ne]{1,2}[ ])?(?:[\"']?[\w.-]{1,64}:(?=[^\n|]{1,200}\|[^\n|]{0,40}chpasswd))?"
    r"(?=[^\n|]{1,200}\|[ ]?(?:sudo[ ](?:-s|[^\n|]{0,40}(?:chpasswd|passwd|cryptsetup))"
    r"|[^\n|;]{0,200}--(?:password|pass)-stdin|chpasswd|passwd(?:[ ](?:--stdin|\w)|\s*\Z|\n)|cryptsetup))"
)
_LOGIN_PAIR = (  # sqlplus scott/X@orcl
    r"(?<![\w-])(?:sqlplus|impdp|expdp|rman|sqlldr)[ ](?:[^\n|;\0]{0,100}[ ])?[\w$#]{1,64}/"
    r"(?:([^\s\"'\0]{4,128})@|([^\s@\"'/\0]{4,128})(?:\s|\Z))"
)


def _find_in_calls(text: str, lowered: str) -> _Found:
    """Yield the last text in calls such as auth=('ada', 'X') and connect('web1', 22, 'ada', 'X')."""
    for found in regex(_CALL).finditer(lowered):
        start, end, quoted = find_value(text, found.end())
        value = text[start:end]
        is_last = regex(r"[\"'`][ \t\n]{0,20}[,)]").match(text, end) is not None
        if quoted and is_last and looks_chosen(value) and not is_placeholder(value) and not is_stand_in(value):
            yield start, end, "password"


_ARGUMENT = r"[ \t\n]{0,9}(?:\"[^\"\n]{0,100}\"|'[^'\n]{0,100}'|[\w.\[\]@-]{1,60}),[ \t\n]{0,9}"
_CALL = (
    rf"(?:auth|login|log_in|sign_?in|log_?on|authenticate)(?:[ \t]{{0,3}}[=:])?[ \t]{{0,3}}\({_ARGUMENT}(?=[\"'`])"
    rf"|connect(?:_to)?\((?:{_ARGUMENT}){{2,4}}(?=[\"'`])"
    # WiFi.begin('home', 'X'), createHmac('sha256', 'X'), jwt.sign({id: 1}, 'X'), hmac.new(b'X', ...)
    rf"|(?:wifi\.begin|createhmac|jwt\.(?:sign|verify|encode|decode))\((?:{_ARGUMENT}|\{{[^{{}}\0]{{0,200}}\}},[ ]?)"
    r"(?=b?[\"'`])|hmac\.new\((?=b?[\"'])"
)
